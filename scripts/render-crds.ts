import { stringify } from 'yaml';

import { customResourceDefinitions } from '../src/api/crds.ts';
import { RESTORE_WINDOW_RULES } from '../src/api/restore-window-rules.ts';

const HEADER = '# Generated from src/api by `npm run generate`. Do not edit.\n';

/** The CRDs as files of deploy/base/crds. */
export function renderCrds(): readonly { readonly file: string; readonly text: string }[] {
  return customResourceDefinitions().map(({ name, manifest }) => ({
    file: `${name}.yaml`,
    // Through JSON: TypeBox keeps markers of its own on a schema that are not part of it.
    text:
      HEADER +
      stringify(JSON.parse(JSON.stringify(manifest)), { lineWidth: 120, aliasDuplicateObjects: false }),
  }));
}

/** A kustomize component that adds to the CRDs what only newer API servers take. */
export function renderCrdRules(): string {
  const path = '/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations';
  const component = {
    apiVersion: 'kustomize.config.k8s.io/v1alpha1',
    kind: 'Component',
    patches: [
      {
        target: { kind: 'CustomResourceDefinition', name: 'restorewindows.gatehouse.dev' },
        patch: stringify([{ op: 'add', path, value: RESTORE_WINDOW_RULES }], { lineWidth: 0 }),
      },
    ],
  };
  return `${HEADER}# From Kubernetes 1.25 on: the API server itself holds RestoreWindows to these rules.\n${stringify(component, { lineWidth: 0 })}`;
}

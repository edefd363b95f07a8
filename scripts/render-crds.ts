import { stringify } from 'yaml';

import { customResourceDefinitions } from '../src/api/crds.ts';
import { RESTORE_WINDOW_RULES } from '../src/api/restore-window-rules.ts';

const HEADER = '# Generated from src/api by `npm run generate`. Do not edit.\n';

/** Renders the CRDs as files of deploy/base/crds. */
export function renderCrds(): readonly { readonly file: string; readonly text: string }[] {
  return customResourceDefinitions().map(({ name, manifest }) => ({
    file: `${name}.yaml`,
    // Through JSON: drops the internal markers of TypeBox.
    text:
      HEADER +
      stringify(JSON.parse(JSON.stringify(manifest)), { lineWidth: 120, aliasDuplicateObjects: false }),
  }));
}

/** Renders a kustomize component with the CRD validation rules that only newer API servers accept. */
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

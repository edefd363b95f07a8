/** The kind in which Velero stores its restores, with the fields that are needed to follow them. */
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';

export const RESTORES: Resource = {
  group: 'velero.io',
  version: 'v1',
  resource: 'restores',
  kind: 'Restore',
  namespaced: true,
};

/** Like Velero's own CRD, it has no status subresource: a user who may write a Restore may write its phase. */
export const restoreDefinition: KubeObject & { readonly spec: object } = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'restores.velero.io' },
  spec: {
    group: RESTORES.group,
    scope: 'Namespaced',
    names: { plural: RESTORES.resource, singular: 'restore', kind: RESTORES.kind },
    versions: [
      {
        name: RESTORES.version,
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
};

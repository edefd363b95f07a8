/** CustomResourceDefinitions as users write them. */
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';

export const resourceOf = (
  group: string,
  resource: string,
  kind: string,
  namespaced = true,
  version = 'v1',
): Resource => ({ group, version, resource, kind, namespaced });

export const ANY = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };

export const withSpec = (properties: object, others: object = {}) => ({
  type: 'object',
  properties: { spec: { type: 'object', properties }, ...others },
});

export const versionOf = (name: string, schema: object = ANY, more: object = {}) => ({
  name,
  served: true,
  storage: true,
  schema: { openAPIV3Schema: schema },
  ...more,
});

export const definitionOf = (
  { group, version, resource, kind, namespaced }: Resource,
  more: object = {},
): KubeObject & { readonly spec: object } => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: `${resource}.${group}` },
  spec: {
    group,
    scope: namespaced ? 'Namespaced' : 'Cluster',
    names: { plural: resource, singular: kind.toLowerCase(), kind, listKind: `${kind}List` },
    versions: [versionOf(version)],
    ...more,
  },
});

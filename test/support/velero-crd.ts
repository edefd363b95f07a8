/** The kind in which Velero stores its restores, with the fields that are needed to follow them. */
import type { Resource } from '../../src/kube/object.ts';
import { definitionOf } from './definitions.ts';

export const RESTORES: Resource = {
  group: 'velero.io',
  version: 'v1',
  resource: 'restores',
  kind: 'Restore',
  namespaced: true,
};

/** Like Velero's own CRD, it has no status subresource: a user who may write a Restore may write its phase. */
export const restoreDefinition = definitionOf(RESTORES);

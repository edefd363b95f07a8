import type { ResourceType } from '../resource-type.ts';

// What the API server's strategies say of single kinds (pkg/registry/*/*/strategy.go).

const idOf = ({ group, resource }: Pick<ResourceType, 'group' | 'resource'>) => `${resource}.${group}`;

/** AllowCreateOnUpdate: a PUT of what is not there creates it. */
const CREATED_BY_UPDATE = new Set([
  'endpoints.',
  'events.',
  'events.events.k8s.io',
  'leases.coordination.k8s.io',
  'services.',
  'clusterrolebindings.rbac.authorization.k8s.io',
  'clusterroles.rbac.authorization.k8s.io',
  'rolebindings.rbac.authorization.k8s.io',
  'roles.rbac.authorization.k8s.io',
]);

export const isCreatedByUpdate = (type: ResourceType): boolean => CREATED_BY_UPDATE.has(idOf(type));

/** Built-in kinds without AllowUnconditionalUpdate. */
const NEVER_OVERWRITTEN = new Set([
  'apiservices.apiregistration.k8s.io',
  'customresourcedefinitions.apiextensions.k8s.io',
  'leases.coordination.k8s.io',
  'mutatingwebhookconfigurations.admissionregistration.k8s.io',
  'poddisruptionbudgets.policy',
  'validatingwebhookconfigurations.admissionregistration.k8s.io',
]);

/** Whether a PUT may leave the resourceVersion out, and then replaces whatever is there. */
export const isOverwritten = (type: ResourceType): boolean =>
  !type.custom && !NEVER_OVERWRITTEN.has(idOf(type));

import { withMeta, type ApiObject } from '../../machinery/api-object.ts';
import { conflict, invalid, MODIFIED, type Subject } from '../../machinery/failure.ts';
import type { ResourceType } from '../../machinery/resource-type.ts';
import { invalidValue } from '../../machinery/schema/causes.ts';

/** @throws ApiFailure 409 when a PUT is meant for an object of another life; `live` is undefined when there is none */
export function refuseOtherLife(type: Subject, name: string, uid: string, live: ApiObject | undefined): void {
  const is = live?.metadata.uid ?? '';
  if (uid === '' || uid === is) return;
  throw conflict(type, name, `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${is}`);
}

/**
 * What is to be written, with the fields that belong to the API server as they are (rest.BeforeUpdate). A uid that is not the
 * object's stays, for validation to refuse.
 *
 * @throws ApiFailure 409 when it is not what the client has seen, 422 when the client does not say what it has seen but has to
 */
export function withIdentity(wanted: ApiObject, live: ApiObject, type: ResourceType): ApiObject {
  const { metadata: is } = live;
  const { metadata: asked } = wanted;
  const { resourceVersion = '' } = asked;
  const hasVersion = resourceVersion !== '' && resourceVersion !== '0';
  if (!hasVersion && !isOverwritten(type)) {
    // The API server has only the resource at hand where a kind belongs.
    throw invalid({ group: type.group, kind: type.resource }, is.name ?? '', [
      invalidValue('metadata.resourceVersion', 0, 'must be specified for an update'),
    ]);
  }
  if (hasVersion && resourceVersion !== is.resourceVersion) throw conflict(type, is.name ?? '', MODIFIED);
  return withMeta(wanted, {
    uid: asked.uid ?? is.uid,
    resourceVersion: is.resourceVersion,
    creationTimestamp: is.creationTimestamp,
    deletionTimestamp: is.deletionTimestamp ?? asked.deletionTimestamp,
    deletionGracePeriodSeconds: asked.deletionGracePeriodSeconds ?? is.deletionGracePeriodSeconds,
    generation: is.generation,
  });
}

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

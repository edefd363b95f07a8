import { withMeta, type ApiObject } from '../../machinery/api-object.ts';
import { conflict, invalid, MODIFIED, type Subject } from '../../machinery/failure.ts';
import type { ResourceType } from '../../machinery/resource-type.ts';
import { invalidValue } from '../../machinery/schema/causes.ts';

/**
 * @throws ApiFailure 409 if the uid of a PUT differs from that of the live object; `live` is undefined if there is
 *   none
 */
export function refuseOtherUid(type: Subject, name: string, uid: string, live: ApiObject | undefined): void {
  const is = live?.metadata.uid ?? '';
  if (uid === '' || uid === is) return;
  throw conflict(type, name, `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${is}`);
}

/**
 * Copies the fields that belong to the API server from the live object (rest.BeforeUpdate). A different uid stays, so
 * that validation rejects it.
 *
 * @throws ApiFailure 409 if the resourceVersion is outdated, 422 if it is missing but required
 */
export function withIdentity(wanted: ApiObject, live: ApiObject, type: ResourceType): ApiObject {
  const { metadata: is } = live;
  const { metadata: asked } = wanted;
  const { resourceVersion = '' } = asked;
  const hasVersion = resourceVersion !== '' && resourceVersion !== '0';
  if (!hasVersion && !isOverwritten(type)) {
    // The API server puts the resource where a kind belongs.
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

// Properties of the API server's strategies (pkg/registry/*/*/strategy.go).

const idOf = ({ group, resource }: Pick<ResourceType, 'group' | 'resource'>) => `${resource}.${group}`;

/** AllowCreateOnUpdate: a PUT of a missing object creates it. */
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
  'clustertrustbundles.certificates.k8s.io',
  'customresourcedefinitions.apiextensions.k8s.io',
  'leases.coordination.k8s.io',
  'mutatingadmissionpolicies.admissionregistration.k8s.io',
  'mutatingadmissionpolicybindings.admissionregistration.k8s.io',
  'mutatingwebhookconfigurations.admissionregistration.k8s.io',
  'poddisruptionbudgets.policy',
  'validatingadmissionpolicies.admissionregistration.k8s.io',
  'validatingadmissionpolicybindings.admissionregistration.k8s.io',
  'validatingwebhookconfigurations.admissionregistration.k8s.io',
]);

/** Whether a PUT without a resourceVersion overwrites the object. */
export const isOverwritten = (type: ResourceType): boolean =>
  !type.custom && !NEVER_OVERWRITTEN.has(idOf(type));

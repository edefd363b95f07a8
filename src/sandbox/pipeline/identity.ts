import { withMeta, type ApiObject } from '../api-object.ts';
import { conflict, invalid, MODIFIED, type Subject } from '../failure.ts';
import type { ResourceType } from '../resource-type.ts';
import { invalidValue } from '../schema/causes.ts';
import { isOverwritten } from './write-rules.ts';

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

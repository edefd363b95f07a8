import { placeOf } from '../../machinery/storage/stored.ts';
import { validateUpdate, withGeneration } from '../../machinery/objects/validate.ts';
import { withMeta, type ApiObject } from '../../machinery/api-object.ts';
import { ApiFailure, badRequest, conflict, invalid, MODIFIED } from '../../machinery/failure.ts';
import { differsOnlyInTimes } from '../../machinery/managed-fields/update.ts';
import type { ResourceType } from '../../machinery/resource-type.ts';
import { complete } from '../../machinery/objects/decode.ts';
import {
  attributesOf,
  converted,
  decoded,
  inNamespace,
  mutated,
  objectAnswer,
  storedObject,
  type Answer,
  type Call,
} from './context.ts';
import { RBAC_GROUP } from '../auth/rbac.ts';
import { objectBody } from '../http/content-type.ts';
import { createInstead, recorded, refuseEscalation, storedType } from './create.ts';
import { isDone } from './delete.ts';
import { optionsJson, writeOptionsOf, type WriteOptions } from './options.ts';
import { restrictToEndpoint } from '../../machinery/objects/subresources.ts';
import { invalidValue } from '../../machinery/schema/causes.ts';

interface Change {
  readonly options: WriteOptions;
  /** Computes the wanted object, with its managed fields, from the live object. Throws ApiFailure. */
  readonly wanted: (live: ApiObject) => ApiObject;
  /** The required uid of the object; empty or absent for any. */
  readonly uid?: string;
  /** For a subresource with its own kind: admission sees the object as that kind. */
  readonly view?: SubresourceView;
}

/** Maps an object to and from the kind of a subresource. */
interface SubresourceView {
  readonly type: ResourceType;
  readonly show: (object: ApiObject) => ApiObject;
  /** The object with the changes of its view. */
  readonly put: (object: ApiObject, shown: ApiObject) => ApiObject;
}

export async function update(call: Call): Promise<Answer> {
  const { api, request, info, type } = call;
  const options = writeOptionsOf(request.query, 'UpdateOptions');
  const wanted = decoded(call, objectBody(request, type.kind), type, options);
  refuseOtherName(wanted, info.name);
  const { uid = '' } = wanted.metadata;
  const isMissing = info.subresource === '' && api.storage.get(placeOf(type), info) === undefined;
  if (isMissing && isCreatedByUpdate(type)) {
    refuseOtherUid(type, info.name, uid, undefined);
    return await createInstead(call, recorded(call, options, wanted, undefined), options);
  }
  const object = await change(call, {
    options,
    uid,
    wanted: (live) => recorded(call, options, wanted, live),
  });
  return objectAnswer(type, object);
}

/** @throws ApiFailure 400 if the body names another object than the path */
export function refuseOtherName({ metadata: { name = '' } }: ApiObject, expected: string): void {
  if (name === '') {
    throw badRequest(
      `the name of the object (${expected} based on URL) was undeterminable: name must be provided`,
    );
  }
  if (name !== expected) {
    throw badRequest(`the name of the object (${name}) does not match the name on the URL (${expected})`);
  }
}

/** @throws ApiFailure 404, 409 for an outdated resourceVersion, and every error of admission and validation */
export async function change(call: Call, change: Change): Promise<ApiObject> {
  const { api, info, type } = call;
  const { uid = '' } = change;
  for (;;) {
    const stored = storedObject(call);
    const version = stored.metadata.resourceVersion ?? '';
    const live = await converted(api, stored, type);
    refuseOtherUid(type, info.name, uid, live);
    const admitted = await admit(call, change, live);
    const next = await converted(api, admitted, storedType(call));
    // Nothing to write: keep the resourceVersion. An object stored in another version or under another schema is rewritten.
    if (differsOnlyInTimes(stored, next)) return live;
    if (change.options.dryRun) return admitted;
    try {
      if (isDone(next)) {
        const { metadata } = api.storage.remove(placeOf(type), info, version);
        return withMeta(admitted, { resourceVersion: metadata.resourceVersion });
      }
      const written = api.storage.replace(placeOf(type), next, version);
      // Watches and lists need the same text; the stored object, not the sent one.
      return next === admitted ? written : await converted(api, written, type);
    } catch (error) {
      // The object changed during the webhook calls: retry with its new state.
      if (!(error instanceof ApiFailure) || error.status.reason !== 'Conflict') throw error;
    }
  }
}

async function admit(call: Call, { options, wanted, view }: Change, live: ApiObject): Promise<ApiObject> {
  const { api, request, info, type } = call;
  const object = wanted(live);
  const show = view?.show ?? ((whole) => whole);
  const attributes = {
    ...attributesOf(call, options.dryRun),
    operation: 'UPDATE',
    oldObject: show(live),
    ...(view === undefined ? {} : { shownAs: view.type }),
    options: optionsJson('UpdateOptions', options),
  } as const;
  const shown = inNamespace(
    await mutated(call, { ...attributes, object: show(object) }, (next) =>
      complete(next, view?.type ?? type),
    ),
    info.namespace,
    type,
  );
  const shaped = withIdentity(view?.put(object, shown) ?? shown, live, type);
  const kept = restrictToEndpoint(shaped, live, type, info.subresource);
  const prepared = withGeneration(
    info.subresource === '' ? type.strategy.prepareForUpdate(kept, live) : kept,
    live,
    type,
  );
  validateUpdate(prepared, live, type, info.subresource);
  await api.admission.validate({ ...attributes, object: show(prepared) }, request.notes);
  refuseEscalation(call, prepared, live);
  return prepared;
}

/** @param live undefined if the object does not exist. @throws ApiFailure 409 if the uid of a PUT differs */
function refuseOtherUid(type: ResourceType, name: string, uid: string, live: ApiObject | undefined): void {
  const is = live?.metadata.uid ?? '';
  if (uid === '' || uid === is) return;
  throw conflict(type, name, `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${is}`);
}

/** Copies the API server's fields from the live object (rest.BeforeUpdate), except a different uid, which validation rejects. */
function withIdentity(wanted: ApiObject, live: ApiObject, type: ResourceType): ApiObject {
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
]);

const isCreatedByUpdate = (type: ResourceType): boolean =>
  type.group === RBAC_GROUP || CREATED_BY_UPDATE.has(idOf(type));

/** Built-in kinds without AllowUnconditionalUpdate, besides those of admission. */
const NEVER_OVERWRITTEN = new Set([
  'apiservices.apiregistration.k8s.io',
  'clustertrustbundles.certificates.k8s.io',
  'customresourcedefinitions.apiextensions.k8s.io',
  'leases.coordination.k8s.io',
  'poddisruptionbudgets.policy',
]);

/** Whether a PUT without a resourceVersion overwrites the object. */
const isOverwritten = (type: ResourceType): boolean =>
  !type.custom && type.group !== 'admissionregistration.k8s.io' && !NEVER_OVERWRITTEN.has(idOf(type));

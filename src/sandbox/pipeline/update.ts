import { isEqual } from '../../admission/json.ts';
import { field, toJson, withMeta, type ApiObject } from '../api-object.ts';
import { parseBody } from '../content-type.ts';
import { ApiFailure, badRequest, conflict, invalid, MODIFIED, notFound } from '../failure.ts';
import { recordUpdate } from '../managed-fields/update.ts';
import type { ResourceRequest } from '../request.ts';
import { apiVersionOf, type ResourceType } from '../resource-type.ts';
import { wholeSchema } from '../schema/object-meta.ts';
import { objectAnswer, type Answer } from './answer.ts';
import { complete, decodeObject, validateUpdate, withGeneration, withStatusOf } from './complete.ts';
import { placeOf, timestamp, type Api, type ApiRequest } from './context.ts';
import { inNamespace, managerOf, optionsJson, refuseEscalation, storedType } from './create.ts';
import { isDone } from './delete.ts';
import { writeOptionsOf, type WriteOptions } from './options.ts';

/** One change of one object, tried again as long as others are faster. */
export interface Change {
  readonly options: WriteOptions;
  readonly optionsKind: 'UpdateOptions' | 'PatchOptions';
  /** What the object is to be, from what it is. Throws ApiFailure. */
  readonly wanted: (live: ApiObject) => ApiObject;
  /** Whether `wanted` has recorded the managed fields itself, as apply does. */
  readonly recorded: boolean;
  /** Whether the object may come without a resourceVersion: then it replaces whatever is there. */
  readonly unconditional: boolean;
}

/** PUT of an object or of its status. */
export async function update(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
): Promise<Answer> {
  const options = writeOptionsOf(request.query, 'UpdateOptions');
  const body = parseBody(request.body, request.contentType);
  const decoded = inNamespace(
    decodeObject(body, type, options.fieldValidation, request.notes),
    info.namespace,
    type,
  );
  const { name = '' } = decoded.metadata;
  if (name !== '' && name !== info.name) {
    throw badRequest(`the name of the object (${name}) does not match the name on the URL (${info.name})`);
  }
  const named = name === '' ? withMeta(decoded, { name: info.name }) : decoded;
  const object = await change(api, request, info, type, {
    options,
    optionsKind: 'UpdateOptions',
    wanted: () => named,
    recorded: false,
    unconditional: !type.custom,
  });
  return objectAnswer(type, object);
}

/** @throws ApiFailure 404 when there is nothing to change, 409 when it is not what the client has seen, and whatever refuses it */
export async function change(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
  change: Change,
): Promise<ApiObject> {
  for (;;) {
    const stored = api.storage.get(placeOf(type), { namespace: info.namespace, name: info.name });
    if (stored === undefined) throw notFound(type, info.name);
    const [live = stored] = await api.convert([stored], type);
    const wanted = withIdentity(change.wanted(live), live, type, change.unconditional);
    const admitted = await admit(
      api,
      request,
      info,
      type,
      change,
      narrowed(wanted, live, type, info.subresource),
      live,
    );
    if (isEqual(toJson(admitted), toJson(live))) return live; // nothing to write: the resourceVersion stays
    if (change.options.dryRun) return admitted;
    const [next = admitted] = await api.convert([admitted], storedType(api, type));
    try {
      const written = isDone(next)
        ? api.storage.remove(
            placeOf(type),
            { namespace: info.namespace, name: info.name },
            stored.metadata.resourceVersion ?? '',
          )
        : api.storage.replace(placeOf(type), next, stored.metadata.resourceVersion ?? '');
      return withMeta(admitted, { resourceVersion: written.metadata.resourceVersion });
    } catch (error) {
      // Somebody wrote while webhooks were asked. What was said about the newer state counts: the next round decides.
      if (!(error instanceof ApiFailure) || error.status.reason !== 'Conflict') throw error;
    }
  }
}

async function admit(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
  { options, optionsKind, recorded }: Change,
  wanted: ApiObject,
  live: ApiObject,
): Promise<ApiObject> {
  const object = recorded
    ? wanted
    : recordUpdate({
        before: live,
        after: wanted,
        manager: managerOf(options, request),
        apiVersion: apiVersionOf(type),
        subresource: info.subresource,
        schema: wholeSchema(type),
        now: timestamp(api.now()),
      });
  const attributes = {
    operation: 'UPDATE',
    type,
    subresource: info.subresource,
    namespace: info.namespace,
    name: info.name,
    oldObject: live,
    user: request.user,
    dryRun: options.dryRun,
    options: optionsJson(optionsKind, options),
  } as const;
  const mutated =
    (await api.admission.mutate({ ...attributes, object }, (next) => complete(next, type), request.notes)) ??
    object;
  const kept = narrowed(mutated, live, type, info.subresource);
  const prepared = withGeneration(
    info.subresource === '' ? type.strategy.prepareForUpdate(kept, live) : kept,
    live,
    type,
  );
  validateUpdate(prepared, live, type);
  await api.admission.validate({ ...attributes, object: prepared }, request.notes);
  refuseEscalation(api, request, type, prepared, live);
  return prepared;
}

/** Fields that belong to the API server are as they are; the resourceVersion is the one that the client has seen. */
function withIdentity(
  wanted: ApiObject,
  live: ApiObject,
  type: ResourceType,
  unconditional: boolean,
): ApiObject {
  const { metadata: is } = live;
  const { metadata: asked } = wanted;
  const { uid = '', resourceVersion = '' } = asked;
  if (resourceVersion === '' && !unconditional) {
    throw invalid(type, is.name ?? '', [
      {
        reason: 'FieldValueInvalid',
        message: 'Invalid value: 0: must be specified for an update',
        field: 'metadata.resourceVersion',
      },
    ]);
  }
  if (uid !== '' && uid !== is.uid) {
    throw conflict(
      type,
      is.name ?? '',
      `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${is.uid ?? ''}`,
    );
  }
  if (resourceVersion !== '' && resourceVersion !== '0' && resourceVersion !== is.resourceVersion) {
    throw conflict(type, is.name ?? '', MODIFIED);
  }
  return withMeta(wanted, {
    uid: is.uid,
    resourceVersion: is.resourceVersion,
    creationTimestamp: asked.creationTimestamp ?? is.creationTimestamp,
    deletionTimestamp: asked.deletionTimestamp ?? is.deletionTimestamp,
    deletionGracePeriodSeconds: asked.deletionGracePeriodSeconds ?? is.deletionGracePeriodSeconds,
    generation: is.generation,
  });
}

/** What a write to the object, or to one of its subresources, can reach; the rest is as it was. */
function narrowed(wanted: ApiObject, live: ApiObject, type: ResourceType, subresource: string): ApiObject {
  switch (subresource) {
    case '':
      return type.hasStatus ? withStatusOf(wanted, live) : wanted;
    case 'finalize': {
      const spec = field(wanted, 'spec');
      return spec === undefined ? live : { ...live, spec };
    }
    default:
      return withMeta(withStatusOf(live, wanted), { managedFields: wanted.metadata.managedFields });
  }
}

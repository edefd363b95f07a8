import type { AdmissionAttributes } from '../../machinery/webhooks/admission-review.ts';
import { placeOf } from '../../machinery/storage/stored.ts';
import { validateCreate, withGeneration, withStatusOf } from '../../machinery/objects/validate.ts';
import type { JsonObject } from '../../../json/json.ts';
import { withMeta, type ApiObject, timestamp } from '../../machinery/api-object.ts';
import {
  alreadyExists,
  ApiFailure,
  badRequest,
  forbidden,
  methodNotAllowed,
} from '../../machinery/failure.ts';
import { recordUpdate } from '../../machinery/managed-fields/update.ts';
import type { ResourceRequest } from '../../machinery/request.ts';
import { apiVersionOf, type ResourceType } from '../../machinery/resource-type.ts';
import { wholeSchema } from '../../machinery/schema/object-meta.ts';
import { objectAnswer, type Answer } from './answer.ts';
import { complete, decodeObject } from '../../machinery/objects/decode.ts';
import type { Api, ApiRequest } from './context.ts';
import { objectBody } from './decode-body.ts';
import { refuseWithoutNamespace } from './namespace-lifecycle.ts';
import { writeOptionsOf, type WriteOptions } from './options.ts';
import { resetFields } from '../../machinery/objects/subresources.ts';

/** How often a generated name may be taken before the client hears of it (rest.CreateWithGenerateName retries as often). */
const NAME_ATTEMPTS = 8;

/** POST to a collection. */
export async function create(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
): Promise<Answer> {
  if (type.namespaced && info.namespace === '') throw methodNotAllowed();
  const options = writeOptionsOf(request.query, 'CreateOptions');
  const body = objectBody(request, type.kind);
  const decoded = inNamespace(
    decodeObject(body, type, options.fieldValidation, request.notes),
    info.namespace,
    type,
  );
  if (type.answer !== undefined) {
    validateCreate(withMeta(decoded, { name: decoded.metadata.name ?? 'review' }), type);
    return objectAnswer(type, type.answer(decoded, request.user), 201);
  }
  const recorded = recordCreation(api, request, type, decoded, options);
  return objectAnswer(type, await createObject(api, request, type, recorded, options), 201);
}

/** The new object with its first managed fields. */
export const recordCreation = (
  api: Pick<Api, 'now'>,
  request: ApiRequest,
  type: ResourceType,
  object: ApiObject,
  options: WriteOptions,
): ApiObject =>
  recordUpdate({
    before: undefined,
    after: object,
    manager: managerOf(options, request),
    apiVersion: apiVersionOf(type),
    subresource: '',
    schema: wholeSchema(type),
    reset: resetFields(type, ''),
    ...(type.custom ? {} : { blank: BLANK_STRUCTS }),
    now: timestamp(api.now()),
  });

/** Go has these in every object of a kind that knows them, so that nobody sets them. */
const BLANK_STRUCTS = { spec: {}, status: {} };

/**
 * What a PUT or an apply makes of an object that is not there. The body's resourceVersion has nothing to be compared with.
 *
 * @throws ApiFailure 403 when the user may not create, and whatever refuses a creation
 */
export async function createInstead(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
  object: ApiObject,
  options: WriteOptions,
): Promise<ApiObject> {
  const { allowed, reason } = api.authorize(request.user, { ...info, verb: 'create' });
  if (!allowed) throw forbidden(type, info.name, reason);
  const wanted = withMeta(object, { resourceVersion: undefined });
  return await createObject(api, request, type, wanted, options);
}

/** Admission, validation and storage of a new object whose managed fields are recorded. */
export async function createObject(
  api: Api,
  request: ApiRequest,
  type: ResourceType,
  object: ApiObject,
  options: WriteOptions,
): Promise<ApiObject> {
  refuseWithoutNamespace(api, type, object);
  const base = {
    operation: 'CREATE',
    type,
    subresource: '',
    namespace: object.metadata.namespace ?? '',
    user: request.user,
    dryRun: options.dryRun,
    options: optionsJson('CreateOptions', options),
  } as const;
  const name = object.metadata.name ?? '';
  const mutated =
    (await api.admission.mutate({ ...base, name, object }, (next) => complete(next, type), request.notes)) ??
    object;

  for (let attempt = 1; ; attempt++) {
    const prepared = prepareNew(api, type, mutated);
    validateCreate(prepared, type);
    const attributes: AdmissionAttributes = { ...base, name: prepared.metadata.name ?? '', object: prepared };
    await api.admission.validate(attributes, request.notes);
    refuseEscalation(api, request, type, prepared, undefined);
    const [stored = prepared] = await api.convert([prepared], storedType(api, type));
    const generated = (mutated.metadata.name ?? '') === '';
    const taken = api.storage.get(placeOf(type), {
      namespace: stored.metadata.namespace ?? '',
      name: stored.metadata.name ?? '',
    });
    if (generated && taken !== undefined && attempt < NAME_ATTEMPTS) continue;
    if (options.dryRun && taken === undefined) return prepared;
    if (isVersion(mutated.metadata.resourceVersion)) {
      throw new ApiFailure(500, '', 'resourceVersion should not be set on objects to be created');
    }
    refuseWithoutNamespace(api, type, stored); // it may have gone while webhooks were asked
    if (taken?.metadata.deletionTimestamp !== undefined) throw stillBeingDeleted(type, taken);
    const written = api.storage.create(placeOf(type), stored);
    if (stored === prepared) return written; // whose text watches and lists need too
    // As k8s.io/apiserver storage/etcd3: the answer is what was stored, converted back, and not what was sent.
    const [shown = written] = await api.convert([written], type);
    return shown;
  }
}

/** What is no version, or 0, counts as none. */
const isVersion = (version = ''): boolean => /^\d+$/.test(version) && Number(version) > 0;

/** The name is not free before the last finalizer has gone. */
function stillBeingDeleted(type: ResourceType, { metadata: { name = '' } }: ApiObject): ApiFailure {
  const { code, reason = '', message = '', details } = alreadyExists(type, name).status;
  return new ApiFailure(code, reason, `object is being deleted: ${message}`, details);
}

/** What the API server sets itself, whatever the client said (rest.BeforeCreate). */
function prepareNew(api: Api, type: ResourceType, object: ApiObject): ApiObject {
  const { name = '', generateName = '' } = object.metadata;
  const filled = withMeta(type.hasStatus ? withStatusOf(object, undefined) : object, {
    name: name === '' && generateName !== '' ? `${generateName.slice(0, 58)}${api.newSuffix()}` : name,
    uid: api.newUid(),
    creationTimestamp: timestamp(api.now()),
    resourceVersion: undefined,
    deletionTimestamp: undefined,
    deletionGracePeriodSeconds: undefined,
  });
  return withGeneration(type.strategy.prepareForCreate(filled), undefined, type);
}

/** The object in the namespace of the request's path. @throws ApiFailure 400 when it says that it is in another one */
export function inNamespace(object: ApiObject, namespace: string, type: ResourceType): ApiObject {
  const { namespace: own = '' } = object.metadata;
  if (!type.namespaced) return own === '' ? object : withMeta(object, { namespace: undefined });
  if (own !== '' && own !== namespace) {
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
  }
  return own === '' ? withMeta(object, { namespace }) : object;
}

/** Who a write is recorded for: as asked, or the first part of the User-Agent. */
export const managerOf = ({ fieldManager }: WriteOptions, { userAgent }: ApiRequest): string =>
  fieldManager === '' ? (userAgent.split('/', 1)[0] ?? '').slice(0, 128) : fieldManager;

/** What webhooks are told of the options; a patch has those of the creation or update that it amounts to. */
export function optionsJson(kind: 'CreateOptions' | 'UpdateOptions', options: WriteOptions): JsonObject {
  return {
    kind,
    apiVersion: 'meta.k8s.io/v1',
    ...(options.dryRun ? { dryRun: ['All'] } : {}),
    ...(options.fieldManager === '' ? {} : { fieldManager: options.fieldManager }),
    ...(options.fieldValidation === '' ? {} : { fieldValidation: options.fieldValidation }),
  };
}

/** @throws ApiFailure 403 when an RBAC object would grant what the user does not have */
export function refuseEscalation(
  api: Api,
  request: ApiRequest,
  type: ResourceType,
  object: ApiObject,
  old: ApiObject | undefined,
): void {
  if (type.group !== 'rbac.authorization.k8s.io') return;
  const problem = api.escalationProblem(request.user, object, old);
  if (problem !== undefined) throw forbidden(type, object.metadata.name ?? '', problem);
}

/** The version in which objects of this resource are kept. */
export function storedType(api: Api, type: ResourceType): ResourceType {
  return type.version === type.storageVersion
    ? type
    : (api.registry.stored(type.group, type.resource) ?? type);
}

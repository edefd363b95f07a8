import type { AdmissionAttributes } from '../../machinery/webhooks/admission-review.ts';
import { placeOf } from '../../machinery/storage/stored.ts';
import { validateCreate, withGeneration, withStatusOf } from '../../machinery/objects/validate.ts';
import type { JsonObject } from '../../json/json.ts';
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
import { forbiddenFor } from '../auth/attributes.ts';
import { resetFields } from '../../machinery/objects/subresources.ts';

/** How many names are tried before a generated name is rejected (as in rest.CreateWithGenerateName). */
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
  const recorded = recordCreation(api, request, type, withoutSystemFields(decoded), options);
  return objectAnswer(type, await createObject(api, request, type, recorded, options), 201);
}

/** Records the managed fields of a new object. */
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

/** Go writes these fields in every object of a kind that has them, so they have no manager. */
const BLANK_STRUCTS = { spec: {}, status: {} };

/**
 * Creates an object for a PUT or an apply of a missing object. The body's resourceVersion is ignored.
 * @throws ApiFailure 403 if the user may not create, and every error of a creation
 */
export async function createInstead(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
  object: ApiObject,
  options: WriteOptions,
): Promise<ApiObject> {
  const creation = { ...info, verb: 'create' as const };
  const { allowed, reason } = api.authorize(request.user, creation);
  if (!allowed) throw forbiddenFor(request.user, creation, reason);
  const wanted = withMeta(object, { resourceVersion: undefined });
  return await createObject(api, request, type, wanted, options);
}

/**
 * Drops what only the API server sets (rest.WipeObjectMetaSystemFields): for a POST before admission; for a PUT or an
 * apply, which earlier releases stored with a forged deletionTimestamp, after mutating admission.
 */
const withoutSystemFields = (object: ApiObject): ApiObject =>
  withMeta(object, {
    uid: undefined,
    creationTimestamp: undefined,
    selfLink: undefined,
    deletionTimestamp: undefined,
    deletionGracePeriodSeconds: undefined,
  });

/** Admits, validates and stores a new object whose managed fields are recorded. */
export async function createObject(
  api: Api,
  request: ApiRequest,
  type: ResourceType,
  object: ApiObject,
  options: WriteOptions,
): Promise<ApiObject> {
  if (type.isTerminating === true) {
    const why = 'create not allowed while custom resource definition is terminating';
    throw forbidden(type, object.metadata.name ?? '', why);
  }
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
  const mutated = inNamespace(
    (await api.admission.mutate({ ...base, name, object }, (next) => complete(next, type), request.notes)) ??
      object,
    base.namespace,
    type,
  );

  for (let attempt = 1; ; attempt++) {
    const prepared = prepareNew(api, type, mutated);
    validateCreate(prepared, type);
    for (const warning of type.strategy.warnings?.(prepared) ?? []) request.notes.warn(warning);
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
    refuseWithoutNamespace(api, type, stored); // the namespace may have been deleted during the webhook calls
    if (taken?.metadata.deletionTimestamp !== undefined) throw stillBeingDeleted(type, taken);
    const written = api.storage.create(placeOf(type), stored);
    if (stored === prepared) return written; // watches and lists need the same text
    // As in k8s.io/apiserver storage/etcd3: the answer is the stored object converted back, not the sent object.
    const [shown = written] = await api.convert([written], type);
    return shown;
  }
}

/** An invalid version, or 0, counts as absent. */
const isVersion = (version = ''): boolean => /^\d+$/.test(version) && Number(version) > 0;

/** The name is taken until the last finalizer is removed. */
function stillBeingDeleted(type: ResourceType, { metadata: { name = '' } }: ApiObject): ApiFailure {
  const { code, reason = '', message = '', details } = alreadyExists(type, name).status;
  return new ApiFailure(code, reason, `object is being deleted: ${message}`, details);
}

/** Sets the fields that belong to the API server, whatever the client sent (rest.BeforeCreate). */
function prepareNew(api: Api, type: ResourceType, object: ApiObject): ApiObject {
  const { name = '', generateName = '' } = object.metadata;
  const filled = withMeta(withoutSystemFields(type.hasStatus ? withStatusOf(object, undefined) : object), {
    name: name === '' && generateName !== '' ? `${generateName.slice(0, 58)}${api.newSuffix()}` : name,
    uid: api.newUid(),
    creationTimestamp: timestamp(api.now()),
    resourceVersion: undefined,
  });
  return withGeneration(type.strategy.prepareForCreate(filled), undefined, type);
}

/** Puts the object into the namespace of the path. @throws ApiFailure 400 if the object names another one */
export function inNamespace(object: ApiObject, namespace: string, type: ResourceType): ApiObject {
  const { namespace: own = '' } = object.metadata;
  if (!type.namespaced) return own === '' ? object : withMeta(object, { namespace: undefined });
  if (own !== '' && own !== namespace) {
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
  }
  return own === '' ? withMeta(object, { namespace }) : object;
}

/** The manager of a write: as requested, or the first part of the User-Agent. */
export const managerOf = ({ fieldManager }: WriteOptions, { userAgent }: ApiRequest): string =>
  fieldManager === '' ? (userAgent.split('/', 1)[0] ?? '').slice(0, 128) : fieldManager;

/** The options that webhooks receive; a patch has those of the resulting create or update. */
export function optionsJson(kind: 'CreateOptions' | 'UpdateOptions', options: WriteOptions): JsonObject {
  return {
    kind,
    apiVersion: 'meta.k8s.io/v1',
    ...(options.dryRun ? { dryRun: ['All'] } : {}),
    ...(options.fieldManager === '' ? {} : { fieldManager: options.fieldManager }),
    ...(options.fieldValidation === '' ? {} : { fieldValidation: options.fieldValidation }),
  };
}

/** @throws ApiFailure 403 if an RBAC object would grant permissions that the user does not have */
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

/** The storage version of this resource. */
export function storedType(api: Api, type: ResourceType): ResourceType {
  return type.version === type.storageVersion
    ? type
    : (api.registry.stored(type.group, type.resource) ?? type);
}

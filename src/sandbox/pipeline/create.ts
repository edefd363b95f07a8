import type { AdmissionAttributes } from '../../machinery/webhooks/admission-review.ts';
import { placeOf } from '../../machinery/storage/stored.ts';
import { validateCreate, withGeneration, withStatusOf } from '../../machinery/objects/validate.ts';
import { toTimestamp } from '../../json/kube-object.ts';
import { withMeta, type ApiObject } from '../../machinery/api-object.ts';
import { alreadyExists, ApiFailure, forbidden, methodNotAllowed, notFound } from '../../machinery/failure.ts';
import { recordUpdate } from '../../machinery/managed-fields/update.ts';
import { apiVersionOf, type ResourceType } from '../../machinery/resource-type.ts';
import { wholeSchema } from '../../machinery/schema/object-meta.ts';
import { complete } from '../../machinery/objects/decode.ts';
import {
  attributesOf,
  converted,
  decoded,
  inNamespace,
  mutated,
  objectAnswer,
  type Answer,
  type Api,
  type Call,
} from './context.ts';
import { objectBody } from '../http/content-type.ts';
import { optionsJson, writeOptionsOf, type WriteOptions } from './options.ts';
import { escalationProblem } from '../auth/escalation.ts';
import { forbiddenFor, RBAC_GROUP } from '../auth/rbac.ts';
import { resetFields } from '../../machinery/objects/subresources.ts';

/** How many names are tried before a generated name is rejected (as in rest.CreateWithGenerateName). */
const NAME_ATTEMPTS = 8;

export async function create(call: Call): Promise<Answer> {
  const { request, info, type } = call;
  if (type.namespaced && info.namespace === '') throw methodNotAllowed();
  const options = writeOptionsOf(request.query, 'CreateOptions');
  const object = decoded(call, objectBody(request, type.kind), type, options);
  if (type.answer !== undefined) {
    validateCreate(withMeta(object, { name: object.metadata.name ?? 'review' }), type);
    return objectAnswer(type, type.answer(object, request.user), 201);
  }
  const wanted = recorded(call, options, withoutSystemFields(object), undefined);
  return objectAnswer(type, await createObject(call, wanted, options), 201);
}

/** The object with the managed fields of this write; `before` is the live object, undefined on create. */
export const recorded = (
  call: Call,
  options: WriteOptions,
  after: ApiObject,
  before: ApiObject | undefined,
): ApiObject =>
  recordUpdate({
    ...writerOf(call, options),
    before,
    after,
    ...(before === undefined && !call.type.custom ? { blank: BLANK_STRUCTS } : {}),
  });

/** Go writes these fields in every object of a kind that has them, so a manager never owns them. */
const BLANK_STRUCTS = { spec: {}, status: {} };

/** Who writes, and to what, for the managed fields. The manager is as requested, or the first part of the User-Agent. */
export const writerOf = ({ api, request, info, type }: Call, { fieldManager }: WriteOptions) => ({
  manager: fieldManager === '' ? (request.userAgent.split('/', 1)[0] ?? '').slice(0, 128) : fieldManager,
  apiVersion: apiVersionOf(type),
  subresource: info.subresource,
  schema: wholeSchema(type),
  reset: resetFields(type, info.subresource),
  now: toTimestamp(api.now()),
});

/** Creates an object for a PUT or an apply of a missing object. */
export async function createInstead(call: Call, object: ApiObject, options: WriteOptions): Promise<Answer> {
  const { api, request, info, type } = call;
  const creation = { ...info, verb: 'create' as const };
  if (!api.authorizer.authorize(request.user, creation)) throw forbiddenFor(request.user, creation);
  const wanted = withMeta(object, { resourceVersion: undefined });
  return objectAnswer(type, await createObject(call, wanted, options), 201);
}

/** Drops what only the API server sets (rest.WipeObjectMetaSystemFields): for a PUT or an apply after mutating admission. */
const withoutSystemFields = (object: ApiObject): ApiObject =>
  withMeta(object, {
    uid: undefined,
    creationTimestamp: undefined,
    selfLink: undefined,
    deletionTimestamp: undefined,
    deletionGracePeriodSeconds: undefined,
  });

/** Admits, validates and stores a new object whose managed fields are recorded. */
async function createObject(call: Call, object: ApiObject, options: WriteOptions): Promise<ApiObject> {
  const { api, request, info, type } = call;
  const { name = '' } = object.metadata;
  if (type.isTerminating === true)
    throw forbidden(type, name, 'create not allowed while custom resource definition is terminating');
  refuseWithoutNamespace(api, type, object);
  const base = {
    ...attributesOf(call, options.dryRun),
    operation: 'CREATE',
    options: optionsJson('CreateOptions', options),
  } as const;
  const shaped = await mutated(call, { ...base, name, object }, (next) => complete(next, type));
  const wanted = inNamespace(shaped, info.namespace, type);

  for (let attempt = 1; ; attempt++) {
    const prepared = prepareNew(api, type, wanted);
    validateCreate(prepared, type);
    const attributes: AdmissionAttributes = { ...base, name: prepared.metadata.name ?? '', object: prepared };
    await api.admission.validate(attributes, request.notes);
    refuseEscalation(call, prepared, undefined);
    const stored = await converted(api, prepared, storedType(call));
    const taken = api.storage.get(placeOf(type), {
      namespace: stored.metadata.namespace ?? '',
      name: stored.metadata.name ?? '',
    });
    const isGenerated = (wanted.metadata.name ?? '') === '';
    if (isGenerated && taken !== undefined && attempt < NAME_ATTEMPTS) continue;
    if (options.dryRun && taken === undefined) return prepared;
    if (isVersion(wanted.metadata.resourceVersion)) {
      throw new ApiFailure(500, '', 'resourceVersion should not be set on objects to be created');
    }
    refuseWithoutNamespace(api, type, stored); // the namespace may have been deleted during the webhook calls
    if (taken?.metadata.deletionTimestamp !== undefined) throw stillBeingDeleted(type, taken);
    const written = api.storage.create(placeOf(type), stored);
    // Lists and watches need equal text. Otherwise, the answer is the stored object converted back (apiserver's storage/etcd3).
    return stored === prepared ? written : await converted(api, written, type);
  }
}

/** An invalid version, or 0, counts as absent. */
const isVersion = (version = ''): boolean => /^\d+$/.test(version) && Number(version) > 0;

/** The name is taken until the last finalizer is removed. */
function stillBeingDeleted(type: ResourceType, { metadata: { name = '' } }: ApiObject): ApiFailure {
  const { code, reason = '', message = '', details } = alreadyExists(type, name).status;
  return new ApiFailure(code, reason, `object is being deleted: ${message}`, details);
}

/** Sets the fields that belong to the API server and ignores the client's values (rest.BeforeCreate). */
function prepareNew(api: Api, type: ResourceType, object: ApiObject): ApiObject {
  const { name = '', generateName = '' } = object.metadata;
  const filled = withMeta(withoutSystemFields(type.hasStatus ? withStatusOf(object, undefined) : object), {
    name: name === '' && generateName !== '' ? `${generateName.slice(0, 58)}${api.newSuffix()}` : name,
    uid: api.newUid(),
    creationTimestamp: toTimestamp(api.now()),
    resourceVersion: undefined,
  });
  return withGeneration(type.strategy.prepareForCreate(filled), undefined, type);
}

/** @throws ApiFailure 403 if an RBAC object would grant permissions that the user does not have */
export function refuseEscalation(
  { api, request, type }: Call,
  object: ApiObject,
  old: ApiObject | undefined,
): void {
  if (type.group !== RBAC_GROUP) return;
  const problem = escalationProblem(api.authorizer, request.user, object, old);
  if (problem !== undefined) throw forbidden(type, object.metadata.name ?? '', problem);
}

export function storedType({ api, type }: Call): ResourceType {
  return type.version === type.storageVersion
    ? type
    : (api.registry.stored(type.group, type.resource) ?? type);
}

const NAMESPACES = { group: '', resource: 'namespaces' };

/** NamespaceLifecycle: objects cannot be created in a missing or terminating namespace. */
function refuseWithoutNamespace({ storage }: Api, type: ResourceType, { metadata }: ApiObject): void {
  if (!type.namespaced) return;
  const name = metadata.namespace ?? '';
  const namespace = storage.get(NAMESPACES, { namespace: '', name });
  if (namespace === undefined) throw notFound(NAMESPACES, name);
  if (namespace.metadata.deletionTimestamp === undefined) return;
  const message = `unable to create new content in namespace ${name} because it is being terminated`;
  const { status } = forbidden(type, metadata.name ?? '', message);
  throw new ApiFailure(403, 'Forbidden', status.message ?? message, {
    ...status.details,
    causes: [
      {
        reason: 'NamespaceTerminating',
        message: `namespace ${name} is being terminated`,
        field: 'metadata.namespace',
      },
    ],
  });
}

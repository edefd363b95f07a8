import { placeOf } from '../../machinery/storage/stored.ts';
import { validateUpdate, withGeneration } from '../../machinery/objects/validate.ts';
import { withMeta, timestamp, type ApiObject } from '../../machinery/api-object.ts';
import {
  ApiFailure,
  badRequest,
  notFound,
  conflict,
  invalid,
  MODIFIED,
  type Subject,
} from '../../machinery/failure.ts';
import { differsOnlyInTimes, recordUpdate } from '../../machinery/managed-fields/update.ts';
import type { ResourceRequest } from '../../machinery/request.ts';
import { apiVersionOf, type ResourceType } from '../../machinery/resource-type.ts';
import { wholeSchema } from '../../machinery/schema/object-meta.ts';
import { objectAnswer, type Answer } from './answer.ts';
import { complete, decodeObject } from '../../machinery/objects/decode.ts';
import type { Api, ApiRequest } from './context.ts';
import { objectBody } from './decode-body.ts';
import {
  createInstead,
  inNamespace,
  managerOf,
  optionsJson,
  recordCreation,
  refuseEscalation,
  storedType,
} from './create.ts';
import { isDone } from './delete.ts';
import { writeOptionsOf, type WriteOptions } from './options.ts';
import { restrictToEndpoint, resetFields } from '../../machinery/objects/subresources.ts';
import { invalidValue } from '../../machinery/schema/causes.ts';

/** A change of one object, which is retried after conflicts. */
export interface Change {
  readonly options: WriteOptions;
  /** Computes the wanted object from the live object. Throws ApiFailure. */
  readonly wanted: (live: ApiObject) => ApiObject;
  /** Whether `wanted` records the managed fields itself, as apply does. */
  readonly recorded: boolean;
  /** The required uid of the object; empty for any. */
  readonly uid: string;
  /** For a subresource with its own kind: admission sees the object as that kind. */
  readonly view?: SubresourceView;
}

/** Maps an object to and from the kind of a subresource. */
export interface SubresourceView {
  readonly type: ResourceType;
  readonly show: (object: ApiObject) => ApiObject;
  /** The object with the changes of its view. */
  readonly put: (object: ApiObject, shown: ApiObject) => ApiObject;
}

const sameObject = (object: ApiObject) => object;

const putWhole = (_object: ApiObject, shown: ApiObject) => shown;

/** PUT of an object or of its status. */
export async function update(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
): Promise<Answer> {
  const options = writeOptionsOf(request.query, 'UpdateOptions');
  const body = objectBody(request, type.kind);
  const decoded = inNamespace(
    decodeObject(body, type, options.fieldValidation, request.notes),
    info.namespace,
    type,
  );
  refuseOtherName(decoded, info.name);
  const { uid = '' } = decoded.metadata;
  const key = { namespace: info.namespace, name: info.name };
  if (
    info.subresource === '' &&
    isCreatedByUpdate(type) &&
    api.storage.get(placeOf(type), key) === undefined
  ) {
    refuseOtherUid(type, info.name, uid, undefined);
    const recorded = recordCreation(api, request, type, decoded, options);
    return objectAnswer(type, await createInstead(api, request, info, type, recorded, options), 201);
  }
  const object = await change(api, request, info, type, {
    options,
    wanted: () => decoded,
    recorded: false,
    uid,
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

/**
 * @throws ApiFailure 404 if the object does not exist, 409 for an outdated resourceVersion, and every error of
 *   admission and validation
 */
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
    refuseOtherUid(type, info.name, change.uid, live);
    const admitted = await admit(api, request, info, type, change, live);
    const [next = admitted] = await api.convert([admitted], storedType(api, type));
    // Nothing to write: the resourceVersion stays. An object stored in another version, or under another schema, is
    // rewritten.
    if (differsOnlyInTimes(stored, next)) return live;
    if (change.options.dryRun) return admitted;
    try {
      const gone = isDone(next);
      const written = gone
        ? api.storage.remove(
            placeOf(type),
            { namespace: info.namespace, name: info.name },
            stored.metadata.resourceVersion ?? '',
          )
        : api.storage.replace(placeOf(type), next, stored.metadata.resourceVersion ?? '');
      if (gone) return withMeta(admitted, { resourceVersion: written.metadata.resourceVersion });
      if (next === admitted) return written; // watches and lists need the same text
      const [shown = written] = await api.convert([written], type); // the stored object, not the sent one
      return shown;
    } catch (error) {
      // The object changed during the webhook calls: retry with its new state.
      if (!(error instanceof ApiFailure) || error.status.reason !== 'Conflict') throw error;
    }
  }
}

async function admit(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
  { options, recorded, wanted: computeWanted, view }: Change,
  live: ApiObject,
): Promise<ApiObject> {
  const wanted = computeWanted(live);
  const object = recorded
    ? wanted
    : recordUpdate({
        before: live,
        after: wanted,
        manager: managerOf(options, request),
        apiVersion: apiVersionOf(type),
        subresource: info.subresource,
        schema: wholeSchema(type),
        reset: resetFields(type, info.subresource),
        now: timestamp(api.now()),
      });
  const { show = sameObject, put = putWhole } = view ?? {};
  const attributes = {
    operation: 'UPDATE',
    type,
    subresource: info.subresource,
    namespace: info.namespace,
    name: info.name,
    oldObject: show(live),
    ...(view === undefined ? {} : { shownAs: view.type }),
    user: request.user,
    dryRun: options.dryRun,
    options: optionsJson('UpdateOptions', options),
  } as const;
  const shown = show(object);
  const mutated = inNamespace(
    (await api.admission.mutate(
      { ...attributes, object: shown },
      (next) => complete(next, view?.type ?? type),
      request.notes,
    )) ?? shown,
    info.namespace,
    type,
  );
  const kept = restrictToEndpoint(
    withIdentity(put(object, mutated), live, type),
    live,
    type,
    info.subresource,
  );
  const prepared = withGeneration(
    info.subresource === '' ? type.strategy.prepareForUpdate(kept, live) : kept,
    live,
    type,
  );
  validateUpdate(prepared, live, type, info.subresource);
  if (info.subresource === '')
    for (const warning of type.strategy.warnings?.(prepared, live) ?? []) request.notes.warn(warning);
  await api.admission.validate({ ...attributes, object: show(prepared) }, request.notes);
  refuseEscalation(api, request, type, prepared, live);
  return prepared;
}

/**
 * @throws ApiFailure 409 if the uid of a PUT differs from that of the live object; `live` is undefined if there is
 *   none
 */
function refuseOtherUid(type: Subject, name: string, uid: string, live: ApiObject | undefined): void {
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
  'clusterrolebindings.rbac.authorization.k8s.io',
  'clusterroles.rbac.authorization.k8s.io',
  'rolebindings.rbac.authorization.k8s.io',
  'roles.rbac.authorization.k8s.io',
]);

const isCreatedByUpdate = (type: ResourceType): boolean => CREATED_BY_UPDATE.has(idOf(type));

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
const isOverwritten = (type: ResourceType): boolean => !type.custom && !NEVER_OVERWRITTEN.has(idOf(type));

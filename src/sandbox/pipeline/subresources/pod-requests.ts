import type { JsonObject } from '../../../json/json.ts';
import { toJson, type ApiObject } from '../../../machinery/api-object.ts';
import { badRequest, conflict, invalid, methodNotAllowed, notFound } from '../../../machinery/failure.ts';
import { record, spec, text, withFields } from '../../../machinery/fields.ts';
import { builtInKind } from '../../../machinery/kinds/built-in-kind.ts';
import { OBJECT_REFERENCE, openObject } from '../../../machinery/kinds/schema-builders.ts';
import { complete, decodeObject } from '../../../machinery/objects/decode.ts';
import type { ResourceRequest } from '../../../machinery/request.ts';
import type { ResourceType } from '../../../machinery/resource-type.ts';
import { requiredValue } from '../../../machinery/schema/causes.ts';
import { placeOf } from '../../../machinery/storage/stored.ts';
import type { Answer } from '../answer.ts';
import type { Api, ApiRequest } from '../context.ts';
import { inNamespace, optionsJson } from '../create.ts';
import { objectBody } from '../decode-body.ts';
import { removeOrMark } from '../delete.ts';
import { writeOptionsOf } from '../options.ts';

const EVICTION = builtInKind({
  ...{ apiVersion: 'policy/v1', kind: 'Eviction', resource: 'evictions', namespaced: true },
  description: 'The request to remove a pod from its node.',
  fields: { deleteOptions: openObject({}) },
});

const BINDING = builtInKind({
  ...{ apiVersion: 'v1', kind: 'Binding', resource: 'bindings', namespaced: true },
  description: 'The request to run a pod on a node.',
  fields: { target: OBJECT_REFERENCE },
});

/** A request about a pod that stores no object of its own. */
interface PodRequest {
  readonly type: ResourceType;
  /** Does what is asked. @throws ApiFailure */
  readonly apply: (api: Api, pods: ResourceType, pod: ApiObject, asked: ApiObject, dryRun: boolean) => void;
}

const POD_REQUESTS: Readonly<Record<string, PodRequest>> = {
  eviction: { type: EVICTION, apply: evict },
  binding: { type: BINDING, apply: bind },
};

/** The request that a POST to this subresource makes; undefined if it makes none. */
export const podRequestOf = (
  { group, resource }: ResourceType,
  subresource: string,
): PodRequest | undefined =>
  group === '' && resource === 'pods' && Object.hasOwn(POD_REQUESTS, subresource)
    ? POD_REQUESTS[subresource]
    : undefined;

/** POST to `pods/<name>/eviction` or `pods/<name>/binding`. @throws ApiFailure */
export async function requestOfPod(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  pods: ResourceType,
  { type, apply }: PodRequest,
): Promise<Answer> {
  if (info.verb !== 'create') throw methodNotAllowed();
  const options = writeOptionsOf(request.query, 'CreateOptions');
  const body = objectBody(request, type.kind);
  const decoded = decodeObject(body, type, options.fieldValidation, request.notes);
  const asked = inNamespace(decoded, info.namespace, type);
  if ((asked.metadata.name ?? info.name) !== info.name)
    throw badRequest(`name in URL does not match name in ${type.kind} object`);
  const attributes = {
    operation: 'CREATE',
    ...{ type: pods, shownAs: type, subresource: info.subresource },
    ...{ namespace: info.namespace, name: info.name, user: request.user, dryRun: options.dryRun },
    options: optionsJson('CreateOptions', options),
  } as const;
  const mutated =
    (await api.admission.mutate(
      { ...attributes, object: asked },
      (next) => complete(next, type),
      request.notes,
    )) ?? asked;
  await api.admission.validate({ ...attributes, object: mutated }, request.notes);
  const pod = api.storage.get(placeOf(pods), { namespace: info.namespace, name: info.name });
  if (pod === undefined) throw notFound(pods, info.name);
  apply(api, pods, pod, mutated, options.dryRun);
  return {
    kind: 'status',
    status: { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', code: 201 },
  };
}

/** The sandbox does not count the pods of PodDisruptionBudgets. The deletion asks no admission. */
function evict(
  api: Api,
  pods: ResourceType,
  { metadata: { namespace = '', name = '' } }: ApiObject,
  _eviction: ApiObject,
  dryRun: boolean,
): void {
  const options = { dryRun, propagationPolicy: undefined, preconditions: {} };
  removeOrMark(api, placeOf(pods), { namespace, name }, options);
}

function bind(api: Api, pods: ResourceType, pod: ApiObject, binding: ApiObject, dryRun: boolean): void {
  const { name = '', resourceVersion = '' } = pod.metadata;
  const target: JsonObject = record(toJson(binding), 'target') ?? {};
  const node = text(target, 'name');
  if (node === '') throw invalid(BINDING, name, [requiredValue('target.name')]);
  const bound = text(spec(pod), 'nodeName');
  if (bound !== '')
    throw conflict(
      { group: '', resource: 'pods/binding' },
      name,
      `pod ${name} is already assigned to node "${bound}"`,
    );
  const assigned = withFields(pod, { spec: { ...spec(pod), nodeName: node } });
  if (!dryRun) api.storage.replace(placeOf(pods), assigned, resourceVersion);
}

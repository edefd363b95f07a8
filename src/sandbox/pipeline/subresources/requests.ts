import { isJsonObject, type JsonObject } from '../../../json/json.ts';
import { ofJson, timestamp, toJson, type ApiObject } from '../../../machinery/api-object.ts';
import { badRequest, conflict, invalid, methodNotAllowed, notFound } from '../../../machinery/failure.ts';
import { record, spec, text, texts, value, withFields } from '../../../machinery/fields.ts';
import { builtInKind } from '../../../machinery/kinds/built-in-kind.ts';
import { OBJECT_REFERENCE, openObject } from '../../../machinery/kinds/schema-builders.ts';
import { complete } from '../../../machinery/objects/decode.ts';
import type { ResourceType } from '../../../machinery/resource-type.ts';
import { invalidValue, requiredValue } from '../../../machinery/schema/causes.ts';
import { placeOf } from '../../../machinery/storage/stored.ts';
import { AUDIENCE } from '../../auth/authenticate.ts';
import { objectBody } from '../../http/content-type.ts';
import {
  attributesOf,
  decoded,
  mutated,
  objectAnswer,
  storedObject,
  type Answer,
  type Call,
} from '../context.ts';
import { removeOrMark } from '../delete.ts';
import { optionsJson, writeOptionsOf, type WriteOptions } from '../options.ts';

// POST to a subresource with a kind of its own, which is not stored: evictions and bindings of pods, tokens of accounts.

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

/** How admission sees a request for a token. */
const TOKEN_REQUEST = builtInKind({
  ...{ apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest' },
  ...{ resource: 'tokenrequests', namespaced: true },
  description: 'A request for a token.',
  fields: { spec: openObject({}), status: openObject({}) },
});

interface PodRequest {
  readonly type: ResourceType;
  /** Does what is asked. @throws ApiFailure */
  readonly apply: (call: Call, pod: ApiObject, asked: ApiObject, dryRun: boolean) => void;
}

const POD_REQUESTS: ReadonlyMap<string, PodRequest> = new Map([
  ['pods/eviction', { type: EVICTION, apply: evict }],
  ['pods/binding', { type: BINDING, apply: bind }],
]);

/** The request that a POST to `pods/eviction` or `pods/binding` makes; undefined for other subresources. */
export const podRequestOf = (path: string): PodRequest | undefined => POD_REQUESTS.get(path);

const attributesAs = (call: Call, shownAs: ResourceType, options: WriteOptions) =>
  ({
    ...attributesOf(call, options.dryRun),
    operation: 'CREATE',
    shownAs,
    options: optionsJson('CreateOptions', options),
  }) as const;

/** @throws ApiFailure */
export async function requestOfPod(call: Call, { type, apply }: PodRequest): Promise<Answer> {
  const { api, request, info } = call;
  if (info.verb !== 'create') throw methodNotAllowed();
  const options = writeOptionsOf(request.query, 'CreateOptions');
  const asked = decoded(call, objectBody(request, type.kind), type, options);
  if ((asked.metadata.name ?? info.name) !== info.name)
    throw badRequest(`name in URL does not match name in ${type.kind} object`);
  const attributes = attributesAs(call, type, options);
  const object = await mutated(call, { ...attributes, object: asked }, (next) => complete(next, type));
  await api.admission.validate({ ...attributes, object }, request.notes);
  apply(call, storedObject(call), object, options.dryRun);
  return {
    kind: 'status',
    status: { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', code: 201 },
  };
}

/** The sandbox does not count the pods of PodDisruptionBudgets. The deletion asks no admission. */
function evict({ api, info, type }: Call, _pod: ApiObject, _eviction: ApiObject, dryRun: boolean): void {
  removeOrMark(api, placeOf(type), info, { dryRun, propagationPolicy: undefined, preconditions: {} });
}

function bind({ api, type }: Call, pod: ApiObject, binding: ApiObject, dryRun: boolean): void {
  const { name = '', resourceVersion = '' } = pod.metadata;
  const node = text(record(toJson(binding), 'target') ?? {}, 'name');
  if (node === '') throw invalid(BINDING, name, [requiredValue('target.name')]);
  const bound = text(spec(pod), 'nodeName');
  if (bound !== '') {
    const place = { group: '', resource: 'pods/binding' };
    throw conflict(place, name, `pod ${name} is already assigned to node "${bound}"`);
  }
  const assigned = withFields(pod, { spec: { ...spec(pod), nodeName: node } });
  if (!dryRun) api.storage.replace(placeOf(type), assigned, resourceVersion);
}

// Lifetimes of tokens in seconds: default, minimum and maximum.
const DEFAULT_LIFE_S = 3_600;
const SHORTEST_LIFE_S = 600;
const LONGEST_LIFE_S = 2 ** 32;

/**
 * POST to `serviceaccounts/<name>/token`: a TokenRequest of authentication.k8s.io/v1.
 * @throws ApiFailure 404 if the account or the bound object does not exist, 422 for an invalid lifetime
 * @see kubernetes/pkg/registry/core/serviceaccount/storage/token.go
 */
export async function issueToken(call: Call): Promise<Answer> {
  const { api, request, info, type } = call;
  if (info.verb !== 'create') throw methodNotAllowed();
  const options = writeOptionsOf(request.query, 'CreateOptions');
  const body = objectBody(request, 'TokenRequest');
  const given = (isJsonObject(body) ? record(body, 'spec') : undefined) ?? {};
  const kind = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest' };
  const { name, namespace } = info;
  const asked = ofJson({ ...kind, metadata: { name, namespace }, spec: given });
  const attributes = attributesAs(call, TOKEN_REQUEST, options);
  const object = await mutated(call, { ...attributes, object: asked }, (next) => next);
  const account = storedObject(call);
  const wanted = spec(object);
  const seconds = lifeOf(wanted);
  await api.admission.validate({ ...attributes, object }, request.notes);
  refuseUnbound(call, wanted);
  const audiences = texts(wanted, 'audiences').length === 0 ? [AUDIENCE] : texts(wanted, 'audiences');
  const token = options.dryRun ? '' : api.issueToken(namespace, name, account.metadata.uid ?? '', seconds);
  const now = api.now();
  const answer = ofJson({
    ...kind,
    metadata: { name, namespace, creationTimestamp: timestamp(now) },
    spec: {
      ...wanted,
      audiences,
      expirationSeconds: seconds,
      boundObjectRef: record(wanted, 'boundObjectRef') ?? null,
    },
    status: { token, expirationTimestamp: timestamp(new Date(now.getTime() + seconds * 1_000)) },
  });
  return objectAnswer(type, answer, 201);
}

function lifeOf(wanted: JsonObject): number {
  const asked = value(wanted, 'expirationSeconds') ?? DEFAULT_LIFE_S;
  if (typeof asked !== 'number') throw badRequest('spec.expirationSeconds is not a number');
  const refuse = (why: string) =>
    invalid(TOKEN_REQUEST, '', [invalidValue('spec.expirationSeconds', asked, why)]);
  if (asked < SHORTEST_LIFE_S) throw refuse('may not specify a duration less than 10 minutes');
  if (asked > LONGEST_LIFE_S) throw refuse('may not specify a duration larger than 2^32 seconds');
  return asked;
}

/** The kinds of objects that a token can be bound to. */
const BINDABLE = new Map([
  ['Pod', 'pods'],
  ['Secret', 'secrets'],
]);

/** @throws ApiFailure if the bound object does not exist, has another uid, or is a pod of another account */
function refuseUnbound({ api, info }: Call, wanted: JsonObject): void {
  const reference = record(wanted, 'boundObjectRef');
  if (reference === undefined) return;
  const [kind, apiVersion] = [text(reference, 'kind'), text(reference, 'apiVersion')];
  const [name, uid] = [text(reference, 'name'), text(reference, 'uid')];
  const resource = apiVersion === 'v1' ? BINDABLE.get(kind) : undefined;
  if (resource === undefined) {
    const named = apiVersion.includes('/') ? apiVersion : `/${apiVersion}`;
    throw badRequest(`cannot bind token to object of type ${named}, Kind=${kind}`);
  }
  const place = { group: '', resource };
  const bound = api.storage.get(place, { namespace: info.namespace, name });
  if (bound === undefined) throw notFound(place, name);
  if (kind === 'Pod' && text(spec(bound), 'serviceAccountName') !== info.name) {
    const account = JSON.stringify(info.name);
    throw badRequest(
      `cannot bind token for serviceaccount ${account} to pod running with different serviceaccount name.`,
    );
  }
  if (uid !== '' && uid !== bound.metadata.uid) {
    throw conflict(
      { group: '', resource: kind },
      name,
      `the UID in the bound object reference (${uid}) does not match the UID in record. The object might have been deleted and then recreated`,
    );
  }
}

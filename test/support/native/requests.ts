/** Requests for the comparison of the webhook and the API server, hostile ones among them. */
import { toAdmissionRequest, type AdmissionRequest } from '../../../src/admission/review/request.ts';
import type { JsonObject, JsonValue } from '../../../src/json/json.ts';
import type { KubeObject } from '../../../src/json/kube-object.ts';
import { ofJson } from '../../../src/machinery/api-object.ts';
import { apiVersionOf, type ResourceType } from '../../../src/machinery/resource-type.ts';
import { admissionReview, type Question } from '../../../src/machinery/webhooks/admission-review.ts';
import { GROUP } from '../admission/policy.ts';
import type { Seeded } from '../seeded.ts';

export interface Asked {
  readonly question: Question;
  readonly request: AdmissionRequest;
  readonly namespaceObject: KubeObject | undefined;
}

const typeFor = (group: string, resource: string, kind: string, namespaced: boolean): ResourceType =>
  ({ group, version: 'v1', resource, kind, namespaced, custom: group === GROUP }) as unknown as ResourceType;

const SERVER = typeFor(GROUP, 'servers', 'Server', true);
const SCALE = typeFor('autoscaling', 'scales', 'Scale', true);
const TYPES: Readonly<Record<string, ResourceType>> = {
  servers: SERVER,
  datacenters: typeFor(GROUP, 'datacenters', 'Datacenter', false),
  classes: typeFor(GROUP, 'classes', 'Class', true),
  namespaces: typeFor('', 'namespaces', 'Namespace', false),
};

const HOSTILE: readonly JsonValue[] = [
  ...[null, '', ' ', '\n', 'a\nb', '\u0000', 'é', '😀😀', '\u2028', 'x'.repeat(5000), '"; true || "'],
  ...[0, -1, 1.5, -0.0, 1e300, -1e300, 9007199254740993n, 2n ** 63n - 1n, -(2n ** 63n)],
  ...[true, false, [], {}, [null], { tier: 'gold' }, [[1]], { '': '' }, { __proto__: 1 }],
  { constructor: 'x' },
];

const LISTS: readonly JsonValue[] = [
  ...[[], ['a'], ['b', 'a'], [{}, { name: 'x' }, { deep: {} }], [{ deep: 'a' }, 'a']],
  [{ deep: [{}, { 'a~/b': 1 }, 'a', []] }, { deep: [] }],
];

function specFrom(chance: Seeded): JsonValue {
  if (chance.chance(0.04)) return chance.pick(HOSTILE);
  const field = (name: string, usual: readonly JsonValue[]): JsonObject => {
    if (chance.chance(0.25)) return {};
    return { [name]: chance.chance(0.12) ? chance.pick(HOSTILE) : chance.pick(usual) };
  };
  return {
    ...field('tier', ['gold', 'silver', 'iron']),
    ...field('units', [0, 1, 2, 3, 4, 5, 6]),
    ...field('note', ['', ' ', 'short', 'rather long', 'two\nlines']),
    ...field('in', [0, 1, 2]),
    ...field('namespace', [0, 1]),
    ...field('enabled', [true, false]),
    ...field('list', LISTS),
    ...field('a~/b', ['x', {}, { 'c/d': 1 }]),
  };
}

function metadataFrom(chance: Seeded, name: string): JsonObject {
  const label = (key: string, values: readonly string[]): JsonObject =>
    chance.chance(0.4) ? { [key]: chance.pick(values) } : {};
  const labels = {
    ...label('example.com/rack', ['r1', 'r2']),
    ...label('app', ['web', 'db', '']),
    ...label('zone', ['a']),
  };
  return { name, namespace: 'store', ...(chance.chance(0.8) ? { labels } : {}) };
}

function objectFrom(chance: Seeded, type: ResourceType, name: string, more: JsonObject): JsonObject {
  const spec: JsonObject = chance.chance(0.02) ? {} : { spec: specFrom(chance) };
  const { namespace, ...metadata } = { ...metadataFrom(chance, name), ...more };
  const place: JsonObject = type.namespaced ? { namespace: namespace ?? null } : {};
  return { apiVersion: apiVersionOf(type), kind: type.kind, metadata: { ...metadata, ...place }, ...spec };
}

const DELETED = { deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['a/b'] };

export interface AskedFrom {
  readonly operations: readonly string[];
  readonly resources: readonly string[];
  readonly users: readonly string[];
}

/** A request for one of the resources; for a subresource only if it is an UPDATE. */
export function askedFrom(chance: Seeded, { operations, resources, users }: AskedFrom): Asked {
  const operation = chance.pick(operations) as 'CREATE' | 'UPDATE' | 'DELETE';
  const [resource = 'servers', ...others] = resources;
  const type = TYPES[resource] ?? SERVER;
  const part = others.length > 0 && chance.chance(0.3) ? chance.pick(others).split('/')[1] : undefined;
  const subresource = operation === 'UPDATE' ? (part ?? '') : '';
  const name = chance.pick(['a', 'b', 'c1']);
  const namespace = type.namespaced ? 'store' : resource === 'namespaces' ? name : '';
  const isOfCollection = operation === 'DELETE' && namespace !== name && chance.chance(0.2);
  const isNamedLater = operation === 'CREATE' && namespace !== name && chance.chance(0.2);
  const objectOf = (more: JsonObject) =>
    ofJson(subresource === 'scale' ? scaleFrom(chance, name) : objectFrom(chance, type, name, more));
  const object = operation === 'DELETE' ? undefined : objectOf({});
  const oldObject = operation === 'CREATE' ? undefined : objectOf(chance.chance(0.1) ? DELETED : {});
  const user = {
    username: chance.pick(users),
    groups: chance.pick([['authors'], ['guests'], ['restorers'], [], ['authors', 'system:authenticated']]),
  };
  const attributes = {
    operation,
    type,
    namespace,
    subresource,
    dryRun: chance.chance(0.1),
    user,
    options: {},
    ...(subresource === 'scale' ? { shownAs: SCALE } : {}),
    name: isOfCollection || isNamedLater ? '' : name,
  };
  const question: Question = { uid: 'u', version: 'v1', attributes, seen: type, object, oldObject };
  const { request } = admissionReview(question) as { readonly request: JsonObject };
  const namespaceObject = namespace === 'store' ? namespaceFrom(chance) : undefined;
  return { question, request: toAdmissionRequest(request), namespaceObject };
}

const scaleFrom = (chance: Seeded, name: string): JsonObject => ({
  apiVersion: 'autoscaling/v1',
  kind: 'Scale',
  metadata: { name, namespace: 'store' },
  spec: { replicas: chance.below(5) },
  status: { replicas: 1 },
});

const namespaceFrom = (chance: Seeded): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name: 'store', labels: { env: chance.pick(['production', 'staging']) } },
});

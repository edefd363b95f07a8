/** Requests for the comparison of the webhook and the API server, hostile ones among them. */
import { toAdmissionRequest, type AdmissionRequest } from '../../../src/admission/review/request.ts';
import type { JsonObject, JsonValue } from '../../../src/json/json.ts';
import { ofJson } from '../../../src/sandbox/machinery/api-object.ts';
import type { ResourceType } from '../../../src/sandbox/machinery/resource-type.ts';
import { admissionReview, type Question } from '../../../src/sandbox/machinery/webhooks/admission-review.ts';
import { GROUP } from '../admission/policy.ts';
import type { Seeded } from '../seeded.ts';

/** One request as both see it. */
export interface Asked {
  /** For the policies of the API server. */
  readonly question: Question;
  /** For the webhook, from the AdmissionReview of the same question. */
  readonly request: AdmissionRequest;
}

const TYPE = {
  ...{ group: GROUP, version: 'v1', resource: 'servers', kind: 'Server', namespaced: true, custom: true },
} as unknown as ResourceType; // what the evaluation reads

const HOSTILE: readonly JsonValue[] = [
  ...[null, '', ' ', '\n', 'a\nb', '\u0000', 'é', '😀😀', '\u2028', 'x'.repeat(5000), '"; true || "'],
  ...[0, -1, 1.5, -0.0, 1e300, -1e300, 9007199254740993n, 2n ** 63n - 1n, -(2n ** 63n)],
  ...[
    true,
    false,
    [],
    {},
    [null],
    { tier: 'gold' },
    [[1]],
    { '': '' },
    { __proto__: 1 },
    { constructor: 'x' },
  ],
];

/** Mostly what the policies expect. */
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
    ...field('list', [[], ['a'], ['b', 'a']]),
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

function objectFrom(chance: Seeded, name: string, more: JsonObject = {}): JsonObject {
  const spec: JsonObject = chance.chance(0.02) ? {} : { spec: specFrom(chance) };
  const metadata = { ...metadataFrom(chance, name), ...more };
  return { apiVersion: `${GROUP}/v1`, kind: 'Server', metadata, ...spec };
}

const DELETED = { deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['a/b'] };

/** @param users who ask */
export function askedFrom(
  chance: Seeded,
  { operations, users }: { readonly operations: readonly string[]; readonly users: readonly string[] },
): Asked {
  const operation = chance.pick(operations) as 'CREATE' | 'UPDATE' | 'DELETE';
  const name = chance.pick(['a', 'b', 'c1']);
  const isOfCollection = operation === 'DELETE' && chance.chance(0.2);
  const isNamedLater = operation === 'CREATE' && chance.chance(0.2);
  const object = operation === 'DELETE' ? undefined : ofJson(objectFrom(chance, name));
  const pending = chance.chance(0.1) ? DELETED : {};
  const oldObject = operation === 'CREATE' ? undefined : ofJson(objectFrom(chance, name, pending));
  const user = {
    username: chance.pick(users),
    groups: chance.pick([['authors'], ['guests'], ['restorers'], [], ['authors', 'system:authenticated']]),
  };
  const attributes = {
    ...{ operation, type: TYPE, namespace: 'store', dryRun: chance.chance(0.1), user, options: {} },
    subresource: operation === 'UPDATE' && chance.chance(0.2) ? 'status' : '',
    name: isOfCollection || isNamedLater ? '' : name,
  };
  const question: Question = { uid: 'u', version: 'v1', attributes, seen: TYPE, object, oldObject };
  const { request } = admissionReview(question) as { readonly request: JsonObject };
  return { question, request: toAdmissionRequest(request) };
}

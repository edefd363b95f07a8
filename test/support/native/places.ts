/** Generated policies, each about its own kind, and requests about these kinds as raw text, in all spellings of JSON. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

import type { AdmissionPolicySpec } from '../../../src/api/admission-policy.ts';
import { pointerPart } from '../../../src/json/json-patch.ts';
import {
  isJsonArray,
  isJsonObject,
  objectIn,
  pick,
  type JsonObject,
  type JsonValue,
} from '../../../src/json/json.ts';
import { toJsonText } from '../../../src/json/json-text.ts';
import type { KubeObject } from '../../../src/json/kube-object.ts';
import type { Resource } from '../../../src/kube/object.ts';
import { toJson } from '../../../src/machinery/api-object.ts';
import { GROUP } from '../admission/policy.ts';
import { ANY, definitionOf, resourceOf, versionOf, withSpec } from '../definitions.ts';
import type { Seeded } from '../seeded.ts';
import { defaultingSpecFrom } from './changes.ts';
import { specFrom } from './generated.ts';
import { mutatingSpecFrom } from './mutations.ts';
import { askedFrom } from './requests.ts';

type Spec = Partial<AdmissionPolicySpec>;
type Operation = NonNullable<NonNullable<Spec['match']>['operations']>[number];

export interface Place {
  readonly name: string;
  readonly kind: Resource;
  readonly spec: Spec;
  readonly definition?: KubeObject;
  readonly askedFrom: (chance: Seeded, operations: readonly Operation[]) => Asked;
}

interface Asked {
  readonly operation: string;
  /** A subresource, or empty. */
  readonly part: string;
  readonly object: JsonObject;
  readonly user: { readonly username: string; readonly groups: readonly string[] };
}

export interface RawRequest extends Pick<Asked, 'user'> {
  readonly method: string;
  readonly path: string;
  readonly contentType: string;
  readonly body: string | undefined;
  /** Whether its old object is being deleted. */
  readonly isDeleted: boolean;
}

export const NAMESPACES = ['store', 'shop'];
const USERS = ['ada', 'ada', 'mallory', 'root'];

const TYPED = withSpec(
  {
    tier: { type: 'string', nullable: true },
    units: { type: 'integer' },
    note: { type: 'string', default: 'short' },
    enabled: { type: 'boolean', default: true },
    in: { 'x-kubernetes-int-or-string': true },
    namespace: { type: 'number', default: 1.5 },
    list: { type: 'array', items: { 'x-kubernetes-preserve-unknown-fields': true } },
    limits: { type: 'object', additionalProperties: { type: 'string' } },
    replicas: { type: 'integer', format: 'int32' },
  },
  { status: ANY },
);
const SCALE = { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' };

// Where a kind has a scale, its spec must be a map.
const versionsWith = (schema: object) => [
  versionOf('v1', schema, { subresources: { status: {} } }),
  versionOf('v2', schema, { storage: false, subresources: { status: {}, scale: SCALE } }),
];

export const KINDS: readonly KubeObject[] = [
  resourceOf(GROUP, 'servers', 'Server'),
  resourceOf(GROUP, 'datacenters', 'Datacenter', false),
  resourceOf(GROUP, 'classes', 'Class'),
].map((kind) => definitionOf(kind, { versions: versionsWith(ANY) }));

/** Everybody may do everything: only the policies judge. */
const apiGroup = 'rbac.authorization.k8s.io';
export const OPEN: KubeObject = {
  apiVersion: `${apiGroup}/v1`,
  kind: 'ClusterRoleBinding',
  metadata: { name: 'everybody' },
  ...{
    roleRef: { apiGroup, kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ apiGroup, kind: 'Group', name: 'system:authenticated' }],
  },
};

/** Of all policies that name another namespace, or a cluster-scoped object. */
export const SHARED_PARAMS: readonly KubeObject[] = [
  {
    apiVersion: `${GROUP}/v1`,
    kind: 'Class',
    metadata: { name: 'limits', namespace: 'platform' },
    ...{ spec: { most: 3, tiers: ['gold'] } },
  },
  {
    apiVersion: `${GROUP}/v1`,
    kind: 'Datacenter',
    metadata: { name: 'limits' },
    ...{ spec: { most: '3', tiers: [] } },
  },
];

const SPECS = [specFrom, specFrom, specFrom, defaultingSpecFrom, mutatingSpecFrom];

export function placesFrom(chance: Seeded, custom: number): readonly Place[] {
  const customs = Array.from({ length: custom }, (_, index) => customPlace(chance, `c${index}`));
  const text = readFileSync(new URL('../../data/differential-kinds.yaml', import.meta.url), 'utf8');
  const builtIn = parse(text, { merge: true }) as Readonly<Record<string, BuiltIn>>;
  return [
    ...customs.flat(),
    ...Object.entries(builtIn).map(([resource, one]) => builtInPlace(chance, resource, one)),
  ];
}

/** Nothing if the generated policy is about another kind. */
function customPlace(chance: Seeded, name: string): readonly Place[] {
  const spec = chance.pick(SPECS)(chance);
  const { match } = spec;
  const [base = ''] = match?.resources ?? [];
  if (match === undefined || base === 'namespaces') return [];
  const isNamespaced = base === 'servers';
  const kind = resourceOf(
    GROUP,
    `${base}-${name}`,
    `${isNamespaced ? 'Server' : 'Datacenter'}${name}`,
    isNamespaced,
  );
  const schema = chance.chance(0.3) ? TYPED : ANY;
  const resources = match.resources.map((one) => one.replace(base, kind.resource));
  const own = JSON.stringify({ ...spec, match: { ...match, resources } });
  return [
    {
      name,
      kind,
      spec: JSON.parse(own.replaceAll('\\"Server\\"', `\\"${kind.kind}\\"`)) as Spec,
      definition: definitionOf(kind, { versions: versionsWith(schema) }),
      askedFrom: (random, operations) => {
        const wanted = { operations, resources: match.resources, users: USERS };
        const { attributes, object, oldObject } = askedFrom(random, wanted).question;
        const { operation, subresource: part, user } = attributes;
        const found = object ?? oldObject;
        if (found === undefined) throw new Error('a request without an object');
        const type = part === 'scale' ? {} : { kind: kind.kind };
        return { operation, part, object: { ...toJson(found), ...type }, user };
      },
    },
  ];
}

interface BuiltIn {
  readonly group?: string;
  readonly kind: string;
  readonly parts?: readonly string[];
  readonly fields: Readonly<Record<string, readonly JsonValue[]>>;
  readonly rules: readonly string[];
}

function builtInPlace(chance: Seeded, resource: string, builtIn: BuiltIn): Place {
  const { group = '', parts = [], fields } = builtIn;
  const kind = resourceOf(group, resource, builtIn.kind, resource !== 'priorityclasses');
  const own = { apiVersion: group === '' ? 'v1' : `${group}/v1`, kind: kind.kind };
  return {
    name: resource,
    kind,
    spec: specAbout(chance, resource, builtIn),
    askedFrom: (random, operations) => {
      const operation = random.pick(operations);
      const part = operation === 'UPDATE' && random.chance(0.3) ? random.pick(['', ...parts]) : '';
      const metadata = random.pick([{}, { labels: { app: 'web' } }, { annotations: null }, { labels: {} }]);
      const user = { username: random.pick(USERS), groups: random.pick([[], ['guests'], ['authors']]) };
      const chosen = Object.entries(fields).flatMap(([field, values]) =>
        random.chance(0.2) ? [] : [[field, random.pick(values)] as const],
      );
      const scale = { apiVersion: 'autoscaling/v1', kind: 'Scale', spec: { replicas: random.below(5) } };
      const object: JsonObject =
        part === 'scale' ? { ...scale, metadata } : { ...own, metadata, ...Object.fromEntries(chosen) };
      return { operation, part, user, object };
    },
  };
}

function specAbout(
  chance: Seeded,
  resource: string,
  { group = '', parts = [], fields, rules }: BuiltIn,
): Spec {
  const names = Object.keys(fields);
  const generic = names.flatMap((name) => [
    ...[`!has(object.${name})`, `object.${name} == null`, `"${name}" in dyn(object)`],
    ...[`dyn(object).?${name}.orValue(null) != null`, `size(dyn(object).${name}) > 0`],
    `oldObject == null || dyn(object).?${name} == dyn(oldObject).?${name}`,
  ]);
  const shown = `${JSON.stringify([...names, 'status', 'metadata'])}.filter(k, k in dyn(object)).join(",")`;
  const checks = chance
    .shuffle([...generic, ...rules, ...rules])
    .slice(0, 4)
    .map((expression, index) => ({
      name: `r${index}`,
      expression: `request.operation == "DELETE" || request.subResource == "scale" || (${expression})`,
      ...(chance.chance(0.5) ? { messageExpression: shown } : {}),
    }));
  const field = chance.pick(names);
  const type = chance.pick(['object', 'array', 'null', ['object', 'array'], 'string']);
  const schema = chance.pick<JsonObject>([{ required: [field] }, { properties: { [field]: { type } } }]);
  const written = ['CREATE', 'UPDATE'] as const;
  return {
    match: {
      apiGroups: [group],
      resources: [resource, ...parts.map((part) => `${resource}/${part}`)].slice(0, chance.pick([1, 3])),
      namespaceSelector: { matchLabels: { differential: 'true' } },
      operations: [...written, ...(chance.chance(0.5) ? (['DELETE'] as const) : [])],
    },
    enforcement: chance.pick(['Deny', 'Deny', 'Warn']),
    validate: {
      rules: checks,
      ...(chance.chance(0.4) ? { immutable: [field] } : {}),
      ...(chance.chance(0.4) ? { schema } : {}),
    },
    ...(chance.chance(0.5)
      ? { defaults: [{ path: 'metadata.labels["example.com/rack"]', value: 'r1' }] }
      : {}),
  };
}

/** Tokens that few clients send, and some that no client may. */
const TOKENS = String.raw`-0 -0.0 80.0 8e1 1E+2 1e-7 1e400 -1e400 1e21 1.0000000000000002 0.1e1
9007199254740993 9223372036854775807 9223372036854775808 1e18 1e19
-9223372036854775808 -9223372036854775809 18446744073709551616 123456789012345678901234567890
null {} [] "" "\ud800" "\u0000" "\u2028" "${'\ufeff'}" "1e400" [null] {"":null}
true {"a":1,"a":2.0} 01 1. NaN`.split(/[ \n]/);

/** The value in another spelling, with other values and repeated keys in a few places. */
function spelled(chance: Seeded, value: JsonValue): string {
  if (chance.chance(0.012)) return chance.pick(TOKENS);
  if (isJsonArray(value)) return `[${value.map((one) => spelled(chance, one)).join()}]`;
  if (isJsonObject(value)) {
    const all = Object.entries(value).flatMap(([key, one]) => {
      const repeated = chance.chance(0.01) ? [`${JSON.stringify(key)}:${chance.pick(TOKENS)}`] : [];
      return [...repeated, `${spelledText(chance, key)}:${spelled(chance, one)}`];
    });
    return `{${all.join()}}`;
  }
  if (typeof value === 'string') return spelledText(chance, value);
  const text = toJsonText(value);
  if (!/^-?\d{1,6}$/.test(text) || !chance.chance(0.3)) return text;
  return chance.pick([`${text}.0`, `${text}e0`, `${text}0e-1`, `${text}.0E+0`]);
}

function spelledText(chance: Seeded, text: string): string {
  if (!chance.chance(0.04)) return JSON.stringify(text);
  return `"${text.replaceAll(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)}"`;
}

/** A dry run. @param olds the stored objects of the place */
export function rawRequest(chance: Seeded, place: Place, olds: readonly KubeObject[]): RawRequest {
  const { kind, spec } = place;
  const { operation, part, object, user } = place.askedFrom(
    chance,
    spec.match?.operations ?? ['CREATE', 'UPDATE'],
  );
  const { metadata: old = {} } = chance.pick(olds);
  const version = part === 'scale' && kind.group === GROUP ? 'v2' : 'v1';
  const within = operation === 'CREATE' ? chance.pick(NAMESPACES) : (old.namespace ?? '');
  const folder = folderOf({ ...kind, version }, within);
  const path = `${folder}/${old.name}${part === '' ? '' : `/${part}`}?dryRun=All`;
  const isDeleted = operation !== 'CREATE' && old.deletionTimestamp !== undefined;
  const all = { user, isDeleted, contentType: 'application/json', body: undefined };
  const { metadata, apiVersion = '', kind: shown = '', ...rest } = object;
  const labels = pick(objectIn({ metadata }, 'metadata'), 'labels', 'annotations');
  const fields = spelled(chance, rest).slice(1, -1);
  const whole = (names: JsonObject) =>
    `{"apiVersion":${toJsonText(apiVersion)},"kind":${toJsonText(shown)},"metadata":${toJsonText({ ...labels, ...names })}${fields === '' ? '' : `,${fields}`}}`;
  if (operation === 'DELETE') {
    const several = `${folder}?fieldSelector=metadata.name%3D${old.name}&dryRun=All`;
    return { ...all, method: 'DELETE', path: chance.chance(0.8) ? path : several };
  }
  if (operation === 'CREATE') {
    const names: JsonObject = chance.chance(0.2)
      ? { generateName: 'a' }
      : { name: chance.pick(['a', 'b', 'c1']) };
    return { ...all, method: 'POST', path: `${folder}?dryRun=All`, body: whole(names) };
  }
  const name = old.name ?? '';
  if (chance.chance(0.4)) {
    const resourceVersion = old.resourceVersion ?? '';
    return { ...all, method: 'PUT', path, body: whole({ name, resourceVersion }) };
  }
  const form = chance.pick([
    'merge-patch+json',
    'strategic-merge-patch+json',
    'json-patch+json',
    'apply-patch+yaml',
  ]);
  const patch = { ...all, method: 'PATCH', contentType: `application/${form}`, path };
  if (form === 'apply-patch+yaml')
    return { ...patch, path: `${path}&fieldManager=probe&force=true`, body: whole({ name }) };
  return { ...patch, body: form === 'json-patch+json' ? operationsOf(chance, rest) : `{${fields}}` };
}

function operationsOf(chance: Seeded, fields: JsonObject): string {
  const parts = Object.entries(fields).flatMap(([key, one]): readonly (readonly [string, JsonValue])[] =>
    isJsonObject(one)
      ? Object.entries(one).map(([below, value]) => [`/${key}${pointerPart(below)}`, value])
      : [[`/${key}`, one]],
  );
  const some = chance.shuffle(parts).slice(0, 2);
  const texts = some.map(
    ([path, value]) =>
      `{"op":"${chance.pick(['add', 'add', 'replace'])}","path":${JSON.stringify(path)},"value":${spelled(chance, value)}}`,
  );
  return `[${texts.join()}]`;
}

export function folderOf({ group, version, resource, namespaced }: Resource, namespace: string): string {
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  return `${root}${namespaced ? `/namespaces/${namespace}` : ''}/${resource}`;
}

/** The objects that the writes of the search send. */
import { GROUP } from './kinds.ts';
import type { Assignment, Forgery, Kind, Padding, Write } from './steps.ts';

/** JSON of any shape. The search reads and writes it without the types of the product. */
export type Json = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export function at(object: unknown, ...path: readonly string[]): unknown {
  let value = object;
  for (const key of path) value = isObject(value) ? value[key] : undefined;
  return value;
}

export function assign(object: Json, [[key = '', ...rest], value]: Assignment): Json {
  const { [key]: old, ...others } = object;
  if (rest.length > 0) return { ...object, [key]: assign(isObject(old) ? old : {}, [rest, value]) };
  return value === null ? others : { ...object, [key]: value };
}

export const assignAll = (object: Json, assignments: readonly Assignment[]): Json =>
  assignments.reduce(assign, object);

/** The same assignments as a merge patch, in which null remains. */
export const mergePatch = (assignments: readonly Assignment[]): Json =>
  assignments.reduce<Json>((patch, [path, value]) => merged(patch, path, value), {});

function merged(patch: Json, [key = '', ...rest]: readonly string[], value: unknown): Json {
  const old = patch[key];
  return { ...patch, [key]: rest.length === 0 ? value : merged(isObject(old) ? old : {}, rest, value) };
}

const API_VERSIONS: Readonly<Record<Kind, (version: string) => string>> = {
  widgets: (version) => `${GROUP}/${version}`,
  bins: (version) => `${GROUP}/${version}`,
  deployments: () => 'apps/v1',
  pods: () => 'v1',
};
const KINDS: Readonly<Record<Kind, string>> = {
  widgets: 'Widget',
  bins: 'Bin',
  deployments: 'Deployment',
  pods: 'Pod',
};

export function folderOf({ kind, version }: Pick<Write, 'kind' | 'version'>, namespace: string): string {
  const apiVersion = API_VERSIONS[kind](version);
  return `/${kind === 'pods' ? 'api' : 'apis'}/${apiVersion}/namespaces/${namespace}/${kind}`;
}

export const typeOf = ({ kind, version }: Pick<Write, 'kind' | 'version'>): Json => ({
  apiVersion: API_VERSIONS[kind](version),
  kind: KINDS[kind],
});

const containers = [{ name: 'main', image: 'example.com/app:1' }];
const VALID: Readonly<Record<Kind, Json>> = {
  widgets: { spec: { bin: 'x', color: 'red', replicas: 1 } },
  bins: { spec: { capacity: 10 } },
  deployments: {
    metadata: { labels: { verdict: 'good' } },
    spec: {
      replicas: 0,
      selector: { matchLabels: { app: 'a' } },
      template: { metadata: { labels: { app: 'a' } }, spec: { containers } },
    },
  },
  pods: { spec: { containers } },
};

/** A complete object that satisfies every policy, with its type. */
export const validObject = (write: Pick<Write, 'kind' | 'version' | 'name'>): Json =>
  assign({ ...typeOf(write), ...validSpec(write) }, [['metadata', 'name'], write.name]);

const validSpec = ({ kind, version }: Pick<Write, 'kind' | 'version'>): Json =>
  kind === 'widgets' && version === 'v1beta1'
    ? { spec: { bin: 'x', colour: 'red', replicas: 1 } }
    : VALID[kind];

/** The assignment as it is in this version. */
export const inVersion = (
  { kind, version }: Pick<Write, 'kind' | 'version'>,
  [path, value]: Assignment,
): Assignment =>
  kind === 'widgets' && version === 'v1beta1' && path.join('.') === 'spec.color'
    ? [['spec', 'colour'], value]
    : [path, value];

const PAST = '2026-01-01T00:00:00Z';
/** What a conversion to v1 puts back, if Gatehouse wrote it. Each value violates a check. */
const PRESERVED = JSON.stringify(
  Object.entries({ owner: 'root', level: 0, note: 'secret', replicas: 9, bin: 'nowhere' }).map(
    ([field, value]) => ({ path: ['spec', field], value }),
  ),
);

/** @param binUid the uid of an existing Bin, for a real owner reference */
export function forgeries(forged: readonly Forgery[], binUid: string): readonly Assignment[] {
  const owner = (uid: string) => [{ apiVersion: `${GROUP}/v1`, kind: 'Bin', name: 'x', uid }];
  const values: Readonly<Record<Forgery, readonly [string, unknown]>> = {
    deletionTimestamp: ['deletionTimestamp', PAST],
    uid: ['uid', '00000000-0000-4000-8000-000000000000'],
    generation: ['generation', 99],
    managedFields: [
      'managedFields',
      [
        {
          manager: 'gatehouse',
          operation: 'Update',
          apiVersion: `${GROUP}/v1`,
          time: PAST,
          fieldsType: 'FieldsV1',
          fieldsV1: { 'f:spec': { 'f:tier': {} } },
        },
      ],
    ],
    ownerReferences: ['ownerReferences', owner(binUid)],
    foreignOwner: ['ownerReferences', owner('11111111-1111-4111-8111-111111111111')],
    creationTimestamp: ['creationTimestamp', PAST],
    resourceVersion: ['resourceVersion', '1'],
    restoreLabels: ['annotations', { 'gatehouse.dev/restore-window': 'bypass' }],
    preserved: ['annotations', { 'conversion.gatehouse.dev/v1': PRESERVED }],
  };
  return [
    ...forged.map((one): Assignment => [['metadata', values[one][0]], values[one][1]]),
    ...(forged.includes('restoreLabels')
      ? [[['metadata', 'labels', 'velero.io/restore-name'], 'bypass'] satisfies Assignment]
      : []),
    // Only an object with a finalizer can be in deletion.
    ...(forged.includes('deletionTimestamp')
      ? [[['metadata', 'deletionGracePeriodSeconds'], 0] satisfies Assignment]
      : []),
  ];
}

/** 1.4 MiB: etcd refuses requests above 1.5 MiB. */
const STORABLE = Math.floor(1.4 * 2 ** 20);
const WIDGET_PAD = ['spec', 'pad'];

/** The padding is near the limits of the API server. It writes `<` as six bytes, but stores it as one in built-in kinds. */
export function paddingOf(padding: Padding): readonly Assignment[] {
  if (padding === 'none') return [];
  if (padding === 'text') return [[WIDGET_PAD, { text: 'x'.repeat(STORABLE) }]];
  if (padding === 'keys')
    return [[WIDGET_PAD, Object.fromEntries(Array.from({ length: 50_000 }, (_, n) => [`key-${n}`, n]))]];
  if (padding === 'depth') return [[WIDGET_PAD, nested(500)]];
  const args = ['<'.repeat(STORABLE)];
  return [[['spec', 'template', 'spec', 'containers'], containers.map((one) => ({ ...one, args }))]];
}

function nested(depth: number): Json {
  let value: Json = {};
  for (let level = 0; level < depth; level += 1) value = { nested: value };
  return value;
}

/** The objects that the writes of the search send. */
import { GROUP, USERS } from './kinds.ts';
import type { Assignment, Forgery, Kind, Padding, Write } from './steps.ts';
import type { PlainAnswer, PlainClient, PlainRequest } from '../support/plain-client.ts';

/** JSON of any shape. The search reads and writes it without the types of the product. */
export type Json = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export function at(object: unknown, ...path: readonly string[]): unknown {
  let value = object;
  for (const key of path) value = isObject(value) ? value[key] : undefined;
  return value;
}

function assign(object: Json, [[key = '', ...rest], value]: Assignment): Json {
  const { [key]: old, ...others } = object;
  if (rest.length > 0) return { ...object, [key]: assign(isObject(old) ? old : {}, [rest, value]) };
  return value === null ? others : { ...object, [key]: value };
}

export const assignAll = (object: Json, assignments: readonly Assignment[]): Json =>
  assignments.reduce(assign, object);

const mergePatch = (assignments: readonly Assignment[]): Json =>
  assignments.reduce<Json>((patch, [path, value]) => merged(patch, path, value), {});

function merged(patch: Json, [key = '', ...rest]: readonly string[], value: unknown): Json {
  const old = patch[key];
  return { ...patch, [key]: rest.length === 0 ? value : merged(isObject(old) ? old : {}, rest, value) };
}

const TYPES: Readonly<Record<Kind, readonly [group: string, kind: string]>> = {
  widgets: [GROUP, 'Widget'],
  bins: [GROUP, 'Bin'],
  deployments: ['apps', 'Deployment'],
  pods: ['', 'Pod'],
};

function typeOf({ kind, version }: Pick<Write, 'kind' | 'version'>) {
  const [group, name] = TYPES[kind];
  const apiVersion = group === '' ? 'v1' : `${group}/${group === GROUP ? version : 'v1'}`;
  return { apiVersion, kind: name };
}

export const folderOf = (write: Pick<Write, 'kind' | 'version'>, namespace: string): string =>
  `/${write.kind === 'pods' ? 'api' : 'apis'}/${typeOf(write).apiVersion}/namespaces/${namespace}/${write.kind}`;

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

const inVersion = (
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
function forgeries(forged: readonly Forgery[], binUid: string): readonly Assignment[] {
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
function paddingOf(padding: Padding): readonly Assignment[] {
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

export interface Place {
  readonly client: PlainClient;
  readonly namespace: string;
  readonly binUid: string;
}

export async function send(write: Write, place: Place): Promise<PlainAnswer> {
  const { client, namespace } = place;
  const assignments = assignmentsOf(write, place);
  const path = `${folderOf(write, namespace)}/${write.name}`;
  const subresource = write.via === 'status' ? '/status' : write.via === 'scale' ? '/scale' : '';
  if (!REPLACES.has(write.via)) return await client.ask(requestOf(write, assignments, namespace));
  const read = await client.ask({ method: 'GET', path: path + subresource });
  if (read.code !== 200) return read;
  const body = assignAll(read.body, write.via === 'scale' ? replicasOf(write) : assignments);
  return await client.ask({
    method: 'PUT',
    path: withDryRun(path + subresource, write),
    as: USERS[write.as],
    body,
  });
}

const REPLACES: ReadonlySet<Write['via']> = new Set(['put', 'status', 'scale']);

const assignmentsOf = (write: Write, { binUid }: Pick<Place, 'binUid'>): readonly Assignment[] => [
  ...write.set.map((one) => inVersion(write, one)),
  ...forgeries(write.forged, binUid),
  ...paddingOf(write.padding),
];

const withDryRun = (path: string, { dryRun }: Write, query = '') => {
  const all = [dryRun ? 'dryRun=All' : '', query].filter((each) => each !== '').join('&');
  return all === '' ? path : `${path}?${all}`;
};

function requestOf(write: Write, set: readonly Assignment[], namespace: string): PlainRequest {
  const folder = folderOf(write, namespace);
  const path = withDryRun(`${folder}/${write.name}`, write);
  const as = USERS[write.as];
  const patch = (type: string, body: unknown): PlainRequest => ({
    method: 'PATCH',
    path,
    as,
    contentType: `application/${type}`,
    body,
  });
  switch (write.via) {
    case 'post':
      return { method: 'POST', path: withDryRun(folder, write), as, body: sentObject(write, set) };
    case 'generate': {
      const { name, ...metadata } = metadataOf(sentObject(write, set));
      const body = { ...sentObject(write, set), metadata: { ...metadata, generateName: `${String(name)}-` } };
      return { method: 'POST', path: withDryRun(folder, write), as, body };
    }
    case 'apply':
      return {
        ...patch('apply-patch+yaml', sentObject(write, set)),
        path: withDryRun(`${folder}/${write.name}`, write, `fieldManager=${write.as}&force=true`),
      };
    case 'merge':
      return patch('merge-patch+json', mergePatch(set));
    case 'strategic':
      return patch('strategic-merge-patch+json', strategic(write, set));
    case 'json':
      return patch('json-patch+json', jsonPatch(set));
    case 'delete':
      return { method: 'DELETE', path, as };
    case 'deletecollection':
      return { method: 'DELETE', path: withDryRun(folder, write), as };
    case 'evict':
      return {
        method: 'POST',
        path: withDryRun(`${folder}/${write.name}/eviction`, write),
        as,
        body: { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: write.name } },
      };
    case 'put':
    case 'status':
    case 'scale':
      throw new Error(`${write.via} reads first`);
  }
}

const metadataOf = ({ metadata }: Json): Json => (isObject(metadata) ? metadata : {});

function sentObject(write: Write, set: readonly Assignment[]): Json {
  const whole = validObject(write);
  return assignAll(write.bare ? { ...typeOf(write), metadata: { name: write.name } } : whole, set);
}

const replicasOf = ({ set }: Write): readonly Assignment[] => {
  const replicas = set.filter(([path]) => path.at(-1) === 'replicas');
  return replicas.length > 0 ? replicas : [[['spec', 'replicas'], 2]];
};

/** A bare strategic patch replaces the labels instead of merging them. */
function strategic({ bare }: Write, set: readonly Assignment[]): Json {
  const patch = mergePatch(set);
  const labels = at(patch, 'metadata', 'labels');
  return bare && isObject(labels)
    ? assignAll(patch, [[['metadata', 'labels'], { $patch: 'replace', ...labels }]])
    : patch;
}

/** Parents such as `metadata.labels` may be absent: then the API server refuses the patch. */
const jsonPatch = (set: readonly Assignment[]) =>
  set.map(([path, value]) => {
    const pointer = path.map((key) => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
    return value === null ? { op: 'remove', path: pointer } : { op: 'add', path: pointer, value };
  });

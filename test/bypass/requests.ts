/** Builds and sends the request of each write. */
import type { PlainAnswer, PlainClient, PlainRequest } from '../support/plain-client.ts';
import { USERS } from './kinds.ts';
import {
  assignAll,
  at,
  folderOf,
  forgeries,
  inVersion,
  isObject,
  mergePatch,
  paddingOf,
  typeOf,
  validObject,
  type Json,
} from './objects.ts';
import type { Assignment, Write } from './steps.ts';

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

/** What the suites with a real Velero back up, lose and restore, under the policies of support/restore-kinds.ts. */
import { groupResourceName, keyOf, type KubeObject } from '../../../src/json/kube-object.ts';
import { resourcePath, type Resource } from '../../../src/kube/object.ts';
import { namespaces } from '../../../src/kube/well-known.ts';
import type { Cluster } from '../cluster.ts';
import { eventually } from '../processes.ts';
import {
  application,
  APPLICATIONS,
  zone,
  ZONES,
  type Application,
  type ApplicationSpec,
} from '../restore-kinds.ts';
import type { BackupSpec, RestoreSpec } from './server.ts';

export interface Scene {
  /** Also a label of all its objects, and the start of the names of its namespaces and Zones. */
  readonly name: string;
  /** Targets come before what names them: the policies are in force. */
  readonly objects: readonly KubeObject[];
  readonly afterCreation?: (cluster: Cluster) => Promise<unknown>;
  /** After the backup. Default: all its namespaces and Zones are deleted. */
  readonly lose?: (cluster: Cluster) => Promise<unknown>;
  readonly restores: readonly RestoreSpec[];
  /** Besides Applications and Zones. */
  readonly otherKinds?: readonly string[];
  /** Writes that admission refuses also during a restore, as a rehearsal prints them. */
  readonly refused?: readonly string[];
  readonly isRestored?: (object: KubeObject) => boolean;
}

export const SCENE_LABEL = 'scene';
const KINDS = [APPLICATIONS, ZONES].map(groupResourceName);
const ofScene = (name: string) => ({ labelSelector: { matchLabels: { [SCENE_LABEL]: name } } });

/** Velero runs backups at the same time only if they don't share a namespace. */
export const backupOf = (scene: Scene): BackupSpec => ({
  ...ofScene(scene.name),
  includedNamespaces: namespacesOf(scene),
  includedResources: [...KINDS, ...(scene.otherKinds ?? [])],
  includeClusterResources: true,
});

export const sceneObjects = (scene: string) => ({
  app: (
    name: string,
    spec: ApplicationSpec,
    {
      namespace = scene,
      labels = {},
    }: { namespace?: string; labels?: Readonly<Record<string, string>> } = {},
  ): Application => application(namespace, name, spec, { labels: { [SCENE_LABEL]: scene, ...labels } }),
  zone: (name: string): KubeObject => ({
    ...zone(`${scene}-${name}`),
    metadata: { name: `${scene}-${name}`, labels: { [SCENE_LABEL]: scene } },
  }),
});

const kindOf = ({ kind }: KubeObject): Resource => (kind === ZONES.kind ? ZONES : APPLICATIONS);

export const namespacesOf = ({ objects }: Scene): readonly string[] => [
  ...new Set(objects.flatMap(({ metadata }) => metadata?.namespace ?? [])),
];

export async function createScene(cluster: Cluster, scene: Scene): Promise<void> {
  const labels = { [SCENE_LABEL]: scene.name };
  for (const name of namespacesOf(scene))
    await cluster.admin.create(namespaces, { metadata: { name, labels } });
  for (const object of scene.objects) await cluster.admin.create(kindOf(object), object);
  await scene.afterCreation?.(cluster);
}

export async function readScene({ admin }: Cluster, { name }: Scene): Promise<Snapshot> {
  const lists = await Promise.all(
    [APPLICATIONS, ZONES].map((kind) =>
      admin.listAll<Application>(kind, { labelSelector: `${SCENE_LABEL}=${name}` }),
    ),
  );
  return lists.flatMap(({ items }) => items);
}

export const loseScene = (cluster: Cluster, scene: Scene): Promise<unknown> =>
  (scene.lose ?? ((one) => deleteScene(one, scene)))(cluster);

/** Deletes all objects, also copies, and leaves the namespaces, which takes less time. */
export async function clearScene({ adminRest }: Cluster, scene: Scene): Promise<void> {
  const query = { labelSelector: `${SCENE_LABEL}=${scene.name}` };
  const copies = scene.restores.flatMap(({ namespaceMapping = {} }) => Object.values(namespaceMapping));
  const places = [...namespacesOf(scene), ...copies].map((namespace) =>
    resourcePath(APPLICATIONS, { namespace }),
  );
  for (const path of [...places, resourcePath(ZONES, {})])
    await adminRest.request({ method: 'DELETE', path, query });
}

async function deleteScene(cluster: Cluster, scene: Scene): Promise<void> {
  const zones = scene.objects.filter(({ kind }) => kind === ZONES.kind);
  for (const { metadata } of zones) await cluster.admin.delete(ZONES, { name: metadata?.name ?? '' });
  await deleteNamespaces(cluster, namespacesOf(scene));
}

async function deleteNamespaces({ admin }: Cluster, names: readonly string[]): Promise<void> {
  await Promise.all(names.map((name) => admin.delete(namespaces, { name })));
  for (const name of names)
    await eventually(
      `the namespace ${name} is gone`,
      async () => (await admin.get(namespaces, { name })) === undefined,
      { timeoutMs: 90_000, everyMs: 200 },
    );
}

const at = (namespace: string, name: string) => ({ namespace, name });

function sceneWith(
  name: string,
  contents: (objects: ReturnType<typeof sceneObjects>) => Omit<Scene, 'name'>,
): Scene {
  return { name, ...contents(sceneObjects(name)) };
}

const wrongOrder = sceneWith('order', ({ app, zone: place }) => ({
  objects: [
    ...[place('red'), place('blue')],
    app('z-base', { zone: 'order-red' }),
    app('a-top', { zone: 'order-blue', parent: 'z-base' }),
    app('mail', { zone: 'order-red', peer: at('order', 'a-top') }, { namespace: 'order-2' }),
    app('free', {}),
  ],
  restores: [{}],
}));

const mapping = sceneWith('mapped', ({ app }) => ({
  objects: [app('z-db', {}), app('a-shop', { parent: 'z-db', peer: at('mapped', 'z-db') })],
  lose: (cluster) => deleteNamespaces(cluster, ['mapped-copy']),
  restores: [{ namespaceMapping: { mapped: 'mapped-copy' } }],
}));

const labels = { part: 'yes' };
const labelSelector = sceneWith('part', ({ app, zone: place }) => ({
  objects: [
    place('red'),
    app('a', { zone: 'part-red' }, { labels }),
    app('b', { zone: 'part-red' }, { labels }),
    app('c', {}),
  ],
  restores: [{ labelSelector: { matchLabels: labels } }],
  isRestored: ({ metadata }) => metadata?.labels?.part === 'yes',
}));

const twoParts = sceneWith('kinds', ({ app, zone: place }) => ({
  objects: [place('red'), app('a', { zone: 'kinds-red' }), app('b', { zone: 'kinds-red' })],
  restores: KINDS.map((kind) => ({ includedResources: [kind] })),
}));

/** `moved` names another Zone now, and `named` has another immutable slug. */
const existing = sceneWith('redo', ({ app, zone: place }) => {
  const named = (slug: string) => app('named', { zone: 'redo-here', slug });
  return {
    objects: [place('here'), place('there'), app('moved', { zone: 'redo-there' }), named('old')],
    lose: async ({ admin }) => {
      await admin.patchMerge(APPLICATIONS, at('redo', 'moved'), { spec: { zone: 'redo-here' } });
      await admin.delete(APPLICATIONS, at('redo', 'named'));
      await admin.create(APPLICATIONS, named('new'));
      await admin.delete(ZONES, { name: 'redo-there' });
    },
    restores: [{ existingResourcePolicy: 'update' }],
    refused: [`Refused ${groupResourceName(APPLICATIONS)} redo/named`],
    isRestored: ({ metadata }) => metadata?.name !== 'named',
  };
});

const status = sceneWith('state', ({ app, zone: place }) => ({
  objects: [place('red'), app('a', { zone: 'state-red' })],
  afterCreation: ({ admin }) =>
    admin.patchStatus(APPLICATIONS, at('state', 'a'), { status: { ready: true } }),
  restores: [{ restoreStatus: { includedResources: KINDS } }],
}));

const owners = sceneWith('owned', ({ app, zone: place }) => {
  const peer = at('owned', 'k-owner');
  const uids = { labels: { uids: 'yes' } };
  return {
    objects: [
      ...[place('red'), app('k-owner', {})],
      ...[app('a-child', { peer }, uids), app('z-child', { peer }, uids), app('of-zone', {})],
    ],
    afterCreation: async ({ admin }) => {
      const owner = await admin.get<Application>(APPLICATIONS, peer);
      const own = (name: string, change: object) => admin.patchMerge(APPLICATIONS, at('owned', name), change);
      const spec = { peer: { ...peer, uid: owner?.metadata?.uid } };
      for (const name of ['a-child', 'z-child']) await own(name, { ...ownedBy(owner), spec });
      await own('of-zone', ownedBy(await admin.get(ZONES, { name: 'owned-red' })));
    },
    restores: [{}],
  };
});

export function ownedBy(owner: KubeObject | undefined) {
  const { apiVersion = '', kind = '', metadata: { name = '', uid = '' } = {} } = owner ?? {};
  return { metadata: { ownerReferences: [{ apiVersion, kind, name, uid }] } };
}

export const SCENES: readonly (readonly [string, Scene])[] = [
  ['wrong order', wrongOrder],
  ['namespace mapping', mapping],
  ['label selector', labelSelector],
  ['included resources, then the rest', twoParts],
  ['existing-resource policy update', existing],
  ['status', status],
  ['owner references and uids', owners],
];

export type Snapshot = readonly (KubeObject & Partial<Pick<Application, 'spec' | 'status'>>)[];

type Compared = Pick<RestoreSpec, 'namespaceMapping' | 'restoreStatus'>;

/** One line for each object that is missing, or that has another spec, uid, or other owners. */
export function lostOf(
  before: Snapshot,
  after: Snapshot,
  { namespaceMapping = {}, restoreStatus }: Compared,
): readonly string[] {
  const mapped = (object: KubeObject): string => {
    const { namespace } = object.metadata ?? {};
    const key = keyOf(object).split('/').at(-1) ?? '';
    return `${object.kind ?? ''} ${namespace === undefined ? '' : `${namespaceMapping[namespace] ?? namespace}/`}${key}`;
  };
  const found = new Map(after.map((object) => [`${object.kind ?? ''} ${keyOf(object)}`, object]));
  const renamed = (text: string) =>
    before.reduce((done, object) => {
      const uid = found.get(mapped(object))?.metadata?.uid ?? 'of a missing object';
      return done.replaceAll(object.metadata?.uid ?? '', uid);
    }, text);
  return before.flatMap((object) => {
    const name = mapped(object);
    const restored = found.get(name);
    if (restored === undefined) return [`${name} is missing`];
    const differs = (field: string, read: (one: Snapshot[number]) => unknown) =>
      renamed(JSON.stringify([read(object)])) === JSON.stringify([read(restored)])
        ? []
        : [`${name} has another ${field}`];
    return [
      ...differs('spec', ({ spec }) => spec),
      ...differs('owner', ({ metadata }) => metadata?.ownerReferences ?? []),
      ...(restoreStatus === undefined ? [] : differs('status', (one) => one.status)),
    ];
  });
}

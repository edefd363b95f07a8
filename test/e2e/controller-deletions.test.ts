// suite: shared-plane, sandbox: long
/** What a controller deletes, and what it leaves alone. And what keeps it from working. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { ownerMark, withProof } from '../../src/controllers/owned-objects.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { configMaps, namespaces } from '../../src/kube/well-known.ts';
import { established, type Cluster, untilGone } from '../support/cluster.ts';
import { ANY, definitionOf, resourceOf, versionOf } from '../support/definitions.ts';
import { startApiProxy, type ApiProxy } from '../support/api-proxy.ts';
import { startReplica, sumOf, type Replica } from '../support/gatehouse.ts';
import { seeEvent } from '../support/injection-objects.ts';
import type { ConfigMap } from '../support/objects.ts';
import { eventually, freePort } from '../support/processes.ts';
import {
  conditionOf,
  isReady,
  startControllerScene,
  type ControllerScene,
  type Reconciled,
} from '../support/user-controllers-scene.ts';

// Not `List`: the garbage collector takes each kind of this name for cluster-scoped, finds no owner, and deletes what it owns.
const TEAMS = resourceOf('example.com', 'teams', 'Team');
const BOARDS = resourceOf('example.com', 'boards', 'Board');
/** Applies a ConfigMap for each `namespace/name` in `spec.maps`. */
const CONTROLLER = `
import { defineController } from '@gatehouse-dev/gatehouse';

export default defineController({
  watch: { apiGroups: ['example.com'], apiVersions: ['v1'], resources: ['teams'] },
  owns: [
    { apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'] },
    { apiGroups: ['example.com'], apiVersions: ['v1'], resources: ['boards'] },
  ],
  async reconcile({ metadata: { name, namespace }, spec }, { apply }) {
    for (const map of spec.maps ?? []) {
      const [place, own] = map.split('/');
      const data = { now: spec.changes ? String(Math.random()) : '' };
      await apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: own, namespace: place }, data });
    }
    if (spec.board) await apply({ apiVersion: 'example.com/v1', kind: 'Board', metadata: { name, namespace } });
  },
  async finalize({ spec }, { remove, wait }) {
    if (spec.waits) wait('Waits', 'for the test', { afterSeconds: 1 });
    for (const map of spec.removes ?? []) {
      const [place, own] = map.split('/');
      await remove({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: own, namespace: place } });
    }
  },
});
`;
const IN_EVERY_REPLICA = `
import { defineController } from '@gatehouse-dev/gatehouse';

export default defineController({
  watch: { apiGroups: [''], apiVersions: ['v1'], resources: ['namespaces'] },
  writesStatus: false,
  leaderOnly: false,
  reconcile: ({ metadata: { name } }, { log }) => log.info('every replica sees ' + name),
});
`;

let scene: ControllerScene;
let cluster: Cluster;
let proxy: ApiProxy;
let replica: Replica;
let port: number;
/** Lists and watches of Teams wait for it. */
let teamsAnswer: Promise<unknown> | undefined;

beforeAll(async () => {
  port = await freePort();
  const versions = [versionOf('v1', ANY, { subresources: { status: {} } })];
  scene = await startControllerScene(port, [], async ({ apply, ...rest }, folder) => {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'teams.ts'), CONTROLLER);
    writeFileSync(join(folder, 'seen.ts'), IN_EVERY_REPLICA);
    await apply(definitionOf(TEAMS, { versions }));
    await established({ apply, ...rest }, 'teams.example.com');
  });
  ({ cluster } = scene);
  for (const name of ['r1', 'r2', 'r3']) await cluster.admin.create(namespaces, { metadata: { name } });
  proxy = await startApiProxy(cluster.plane, 'late', async (_method, path) => {
    if (/\/teams(\?|$)/.test(path)) await teamsAnswer;
    return undefined;
  });
  replica = await start('one');
});

async function start(name: string): Promise<Replica> {
  const settings = { handlers: scene.folder, kubeconfig: proxy.kubeconfig('gatehouse') };
  const started = await startReplica(cluster.plane, { name, servicePort: port, settings });
  await started.whenReady();
  return started;
}

afterAll(async () => {
  await replica.program.stop(15_000);
  await proxy.stop();
  await scene.stop();
});

const at = (path: string) => {
  const [namespace = '', name = ''] = path.split('/');
  return { namespace, name };
};
const untilReady = (name: string) =>
  cluster.see<Reconciled>(`${name} is ready`, TEAMS, { namespace: 'r1', name }, isReady);
const createTeam = async (name: string, spec: object) => {
  const metadata = { namespace: 'r1', name };
  await cluster.admin.create(TEAMS, { metadata, spec } as KubeObject);
};
/** Resolves after a pass over the changed Team. */
const setMaps = async (name: string, ...maps: readonly string[]) => {
  await cluster.admin.patchMerge(TEAMS, { namespace: 'r1', name }, { spec: { maps } });
  await untilReady(name);
};
const isLogged = (name: string, ...texts: readonly string[]): boolean =>
  readFileSync(join(cluster.plane.folder, `${name}.log`), 'utf8')
    .split('\n')
    .some((line) => texts.every((text) => line.includes(text)));
const mapAt = (path: string) => cluster.admin.get<ConfigMap>(configMaps, at(path));
const proofOf = (map: KubeObject | undefined) => map?.metadata?.annotations?.['gatehouse.dev/applied'];
/** As `kubectl get -o yaml` and a new place, or a backup tool: everything but what the API server sets. */
const restore = async (map: ConfigMap, path: string, annotations: object = {}) => {
  const { labels, annotations: marks } = map.metadata ?? {};
  const metadata = { ...at(path), labels, annotations: { ...marks, ...annotations } };
  const { uid } = (await cluster.admin.create(configMaps, { metadata } as KubeObject)).metadata ?? {};
  return async () => expect((await mapAt(path))?.metadata?.uid).toBe(uid);
};
const applied = async (path: string): Promise<ConfigMap> =>
  await cluster.see<ConfigMap>(path, configMaps, at(path), (map) => proofOf(map)?.includes('.') === true);

describe.each([
  ['in the namespace of its owner', 'r1'],
  ['in another namespace', 'r2'],
])('a ConfigMap %s', (where, namespace) => {
  const team = `team-${namespace}`;
  const [a, b] = [`${namespace}/a-${namespace}`, `${namespace}/b-${namespace}`];
  let original: ConfigMap;

  beforeAll(async () => {
    await createTeam(team, { maps: [a, b] });
    await untilReady(team);
    original = await applied(b);
  });

  test('has copies, which remain in every namespace and under every name', async () => {
    const copies = [await restore(original, 'r3/w'), await restore(original, `${namespace}/copy`)];
    await setMaps(team, b, a);
    await sleep(2_000);
    for (const expectKept of copies) await expectKept();
    await cluster.admin.delete(configMaps, at('r3/w'));
    await cluster.admin.delete(configMaps, at(`${namespace}/copy`));
  });

  test('is pruned with an Event and a log line when it is not applied anymore', async () => {
    await setMaps(team, a);
    await untilGone(cluster, configMaps, at(b));
    const { message } = await seeEvent(cluster, 'r1', team, 'Deleted');
    expect(message).toBe(`deleted ConfigMap ${b}: the controller does not apply it any more`);
    await eventually('the log line', () => Promise.resolve(isLogged('one', 'deleted an object', b)));
  });

  test('remains when it is restored, until a pass applies it again and another one does not', async () => {
    const expectKept = await restore(original, b);
    await seeEvent(cluster, 'r1', team, 'NotDeleted');
    await setMaps(team, a);
    await sleep(2_000);
    await expectKept();
    await setMaps(team, a, b);
    expect(proofOf(await mapAt(b))).not.toBe(proofOf(original));
    await expectKept();
    await setMaps(team, a);
    await untilGone(cluster, configMaps, at(b));
  });

  test('with the marks of an earlier version is taken over when it is applied, and remains otherwise', async () => {
    const marks = { 'gatehouse.dev/applied': proofOf(original)?.split('.')[0] };
    const expectKept = await restore(original, b, marks);
    await setMaps(team, a, b);
    await applied(b);
    await expectKept();
    await setMaps(team, a);
    await untilGone(cluster, configMaps, at(b));
    const expectLeft = await restore(original, b, marks);
    await setMaps(team, a);
    await sleep(2_000);
    await expectLeft();
  });
});

describe("what only looks like the controller's own object", () => {
  const deleteTeam = async (name: string, namespace = 'r1', options: object = {}) => {
    await cluster.admin.delete(TEAMS, { namespace, name }, options);
  };
  /** The labels of an object of this Team. Everybody can compute them. */
  const labelsFor = (key: string) => ({
    'gatehouse.dev/controller': 'teams',
    'gatehouse.dev/owner': ownerMark({ watched: { ...TEAMS, version: 'v1' } }, key),
  });

  test('does not keep its supposed owner from going, although it never ends itself', async () => {
    const finalizers = ['tenant.example.com/never'];
    const annotations = { 'gatehouse.dev/applied': 'forged.forged' };
    const metadata = { ...at('r2/trap'), labels: labelsFor('r1/trapped'), annotations, finalizers };
    await cluster.admin.create(configMaps, { metadata });
    await cluster.admin.delete(configMaps, at('r2/trap'));
    await createTeam('trapped', { removes: ['r2/trap'] });
    await untilReady('trapped');
    await deleteTeam('trapped');
    await untilGone(cluster, TEAMS, { namespace: 'r1', name: 'trapped' });
    expect(await mapAt('r2/trap')).toBeDefined();
    await cluster.admin.patchMerge(configMaps, at('r2/trap'), { metadata: { finalizers: [] } });
  });

  test('stays when its owner is orphaned, also after a pass that waits, and when the owner is created again', async () => {
    await createTeam('kept', { maps: ['r2/kept'], waits: true });
    await untilReady('kept');
    const { uid } = (await applied('r2/kept')).metadata ?? {};
    const place = { namespace: 'r1', name: 'kept' };
    await deleteTeam('kept', 'r1', { propagationPolicy: 'Orphan' });
    // No garbage collector runs in each of the test's clusters.
    const { finalizers = [] } = (await cluster.admin.get<KubeObject>(TEAMS, place))?.metadata ?? {};
    const isWaiting = (one: Reconciled) => conditionOf(one, 'Ready')?.reason === 'Waits';
    await cluster.see<Reconciled>('it waits', TEAMS, place, isWaiting);
    const left = finalizers.filter((one) => one !== 'orphan');
    await cluster.admin.patchMerge(TEAMS, place, { metadata: { finalizers: left }, spec: { waits: false } });
    await untilGone(cluster, TEAMS, place);
    await createTeam('kept', {});
    await seeEvent(cluster, 'r1', 'kept', 'NotDeleted');
    expect((await mapAt('r2/kept'))?.metadata?.uid).toBe(uid);
  });

  test('stays when it and its owner are copies in another namespace', async () => {
    await createTeam('twin', { maps: ['r1/twin'] });
    const { uid } = (await applied('r1/twin')).metadata ?? {};
    const expectKept = await restore(await applied('r1/twin'), 'r3/twin');
    const spec = { maps: ['r3/twin'], removes: ['r3/twin', 'r1/twin'] };
    await cluster.admin.create(TEAMS, { metadata: { namespace: 'r3', name: 'twin' }, spec } as KubeObject);
    const isRefused = (one: Reconciled) => conditionOf(one, 'Ready')?.reason === 'ReconcileFailed';
    const place = { namespace: 'r3', name: 'twin' };
    const refused = await cluster.see<Reconciled>('it is refused', TEAMS, place, isRefused);
    expect(conditionOf(refused, 'Ready')?.message).toContain('belongs to another object of the controller');
    await deleteTeam('twin', 'r3');
    await untilGone(cluster, TEAMS, place);
    expect((await seeEvent(cluster, 'r3', 'twin', 'NotDeleted')).message).toContain('belongs to');
    await expectKept();
    expect((await mapAt('r1/twin'))?.metadata?.uid).toBe(uid);
  });

  test('stays while the controller has an old version of its owner, as another leader applied it', async () => {
    await createTeam('late', {});
    await untilReady('late');
    const errors = () =>
      sumOf([replica], 'controller_runtime_reconcile_total{controller="teams",result="error"');
    const before = await errors();
    const released = Promise.withResolvers<undefined>();
    teamsAnswer = released.promise;
    proxy.breakWatches((path) => path.includes('/teams'));
    const place = { namespace: 'r1', name: 'late' };
    const owner = await cluster.admin.patchMerge<KubeObject>(TEAMS, place, { spec: { maps: ['r2/late'] } });
    const bare = { metadata: at('r2/late') } as KubeObject;
    const created = await cluster.admin.create<KubeObject>(configMaps, bare);
    const { metadata } = withProof(bare, { object: owner, mark: '' }, created);
    const marks = { labels: labelsFor('r1/late'), annotations: metadata?.annotations };
    await cluster.admin.patchMerge(configMaps, at('r2/late'), { metadata: marks });
    await eventually('a pass over the old version', async () => (await errors()) > before);
    teamsAnswer = undefined;
    released.resolve(undefined);
    await untilReady('late');
    expect((await mapAt('r2/late'))?.metadata?.uid).toBe(created.metadata?.uid);
  });
});

test('a controller with leaderOnly: false runs in every replica', async () => {
  const second = await start('two');
  for (const name of ['one', 'two'])
    await eventually(`replica ${name}`, () => Promise.resolve(isLogged(name, 'every replica sees r2')));
  await second.program.stop(15_000);
});

test('passes that keep changing the same object are delayed, here because of another writer', async () => {
  await createTeam('hot', { maps: ['r2/hot'] });
  const place = { namespace: 'r1', name: 'hot' };
  let isFighting = true;
  const fight = async () => {
    await applied('r2/hot');
    for (let count = 0; isFighting; count += 1) {
      await cluster.admin.patchMerge(configMaps, at('r2/hot'), { data: { now: `other ${count}` } });
      await sleep(50);
    }
  };
  const fighting = fight();
  const isBraked = (one: Reconciled) => conditionOf(one, 'Ready')?.reason === 'KeepsChanging';
  const braked = await cluster.see<Reconciled>('the condition', TEAMS, place, isBraked);
  expect(conditionOf(braked, 'Ready')).toMatchObject({
    status: 'False',
    message: expect.stringMatching(
      /^each pass changes data\.now of ConfigMap r2\/hot, and so does \S+ \(Update at /,
    ) as string,
  });
  await seeEvent(cluster, 'r1', 'hot', 'KeepsChanging');
  const versionAt = async () => (await mapAt('r2/hot'))?.data?.now;
  const seen = new Set<string | undefined>();
  for (let count = 0; count < 40; count += 1) {
    seen.add(await versionAt());
    await sleep(100);
  }
  expect(seen.size).toBeGreaterThan(20);
  expect(await replica.metrics()).toMatch(/^gatehouse_controller_delayed_objects\{controller="teams"\} 1$/m);
  isFighting = false;
  await fighting;
  await untilReady('hot');
  expect(await versionAt()).toBe('');
});

test('a kind in owns that is not served stops only the Teams that need it, and only until it is created', async () => {
  await createTeam('board', { board: true });
  const place = { namespace: 'r1', name: 'board' };
  const isRefused = (one: Reconciled) => conditionOf(one, 'Ready')?.status === 'False';
  const refused = await cluster.see<Reconciled>('it is not ready', TEAMS, place, isRefused);
  expect(conditionOf(refused, 'Ready')).toMatchObject({
    reason: 'ReconcileFailed',
    message: 'the API server does not serve Board example.com/v1: create its CustomResourceDefinition',
  });
  const missing = /^gatehouse_controller_missing_kinds\{controller="teams"\} (\d+)$/m;
  expect(missing.exec(await replica.metrics())?.[1]).toBe('1');
  await cluster.apply(definitionOf(BOARDS, { versions: [versionOf('v1', ANY)] }));
  await untilReady('board');
  expect(await cluster.admin.get(BOARDS, place)).toBeDefined();
  expect(missing.exec(await replica.metrics())?.[1]).toBe('0');
});

// suite: shared-plane, sandbox: long
/** What a controller deletes, and what it leaves alone. And what keeps it from working. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { configMaps, namespaces } from '../../src/kube/well-known.ts';
import { established, type Cluster, untilGone } from '../support/cluster.ts';
import { ANY, definitionOf, resourceOf, versionOf } from '../support/definitions.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
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
});
`;

let scene: ControllerScene;
let cluster: Cluster;
let replica: Replica;

beforeAll(async () => {
  const port = await freePort();
  const versions = [versionOf('v1', ANY, { subresources: { status: {} } })];
  scene = await startControllerScene(port, [], async ({ apply, ...rest }, folder) => {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'teams.ts'), CONTROLLER);
    await apply(definitionOf(TEAMS, { versions }));
    await established({ apply, ...rest }, 'teams.example.com');
  });
  ({ cluster } = scene);
  for (const name of ['r1', 'r2', 'r3']) await cluster.admin.create(namespaces, { metadata: { name } });
  replica = await startReplica(cluster.plane, {
    name: 'one',
    port,
    arrangement: 'both',
    settings: { handlers: scene.folder },
  });
  await replica.whenReady();
});

afterAll(async () => {
  await replica.program.stop(15_000);
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
    const lines = () => readFileSync(join(cluster.plane.folder, 'one.log'), 'utf8').split('\n');
    const isLogged = () => lines().some((line) => line.includes('deleted an object') && line.includes(b));
    await eventually('the log line', () => Promise.resolve(isLogged()));
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
    message: expect.stringContaining('each pass changes ConfigMap r2/hot: ') as string,
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

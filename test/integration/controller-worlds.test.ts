/** Controllers of users against the API of the sandbox: what their stores show, and when. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import pino from 'pino';
import { afterEach, describe, expect, test } from 'vitest';

import { applyManifests } from '../../src/cli/deploy-manifests.ts';
import { NAMESPACE, startApi } from '../../src/cli/sandbox/api.ts';
import { startControllerSuite, type ControllerSuite } from '../../src/testing.ts';
import { resolveConfig } from '../../src/config/config.ts';
import { compileController } from '../../src/controllers/compile-controller.ts';
import { defineController, type ControllerDefinition } from '../../src/controllers/controller.ts';
import { desiredObject, ownerMark } from '../../src/controllers/owned-objects.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import type { Resource } from '../../src/kube/object.ts';
import { customResourceDefinitions } from '../../src/kube/well-known.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { connect } from '../../src/runtime/context.ts';
import {
  createClusterWorld,
  watchKinds,
  writeKey,
  createOwnWrites,
  type OwnWrites,
} from '../../src/runtime/controllers/cluster-world.ts';
import { createMetrics } from '../../src/server/metrics/metrics.ts';
import { ANY, definitionOf, resourceOf, versionOf } from '../support/definitions.ts';
import { eventually } from '../support/processes.ts';

const crd = (resource: Resource) =>
  definitionOf(resource, { versions: [versionOf('v1', ANY, { subresources: { status: {} } })] });
const teams = resourceOf('example.com', 'teams', 'Team');
const boards = resourceOf('example.com', 'boards', 'Board', false);
const racks = resourceOf('example.com', 'racks', 'Rack', false);
const team = (name: string, metadata: object = {}) => ({
  apiVersion: 'example.com/v1',
  kind: 'Team',
  metadata: { name, namespace: 'default', ...metadata },
});
const owning = ({ group, version, resource }: Resource) => ({
  apiGroups: [group] as const,
  apiVersions: [version] as const,
  resources: [resource] as const,
});
const define = (parts: Partial<ControllerDefinition> & Pick<ControllerDefinition, 'reconcile'>) =>
  defineController({ name: 'teams', watch: owning(teams), ...parts });

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});
const startSuite = async (
  controller: Parameters<typeof startControllerSuite>[0],
  ...more: readonly object[]
): Promise<ControllerSuite> => {
  const suite = await startControllerSuite(controller, { manifests: [crd(teams), ...more], api: 'memory' });
  ends.push(suite.stop);
  return suite;
};

test('what a controller receives is frozen, from a store or live', async () => {
  const frozen: boolean[] = [];
  const suite = await startSuite(
    define({
      reads: ['namespaces'],
      finalize: () => undefined,
      reconcile: async (object, { get, list }) => {
        const found = await get('namespaces', { name: 'default' });
        const [first] = await list('namespaces');
        for (const one of [object, found, first]) frozen.push(Object.isFrozen(one?.metadata));
      },
    }),
  );
  await suite.apply(team('blue'));
  await suite.settle();
  expect(new Set(frozen)).toEqual(new Set([true]));
});

test('an owner is deleted although the kind that it owns is not served anymore', async () => {
  let passes = 0;
  const controller = define({
    owns: [owning(boards)],
    finalize: () => undefined,
    reconcile: async (_team, { apply }) => {
      passes += 1;
      await apply({ apiVersion: 'example.com/v1', kind: 'Board', metadata: { name: 'blue' } });
    },
  });
  const suite = await startSuite(controller, crd(boards));
  await suite.apply(team('blue'));
  await suite.settle();
  const ref = { namespace: 'default', name: 'blue' };
  const isGone = async () => (await suite.get(teams, ref)) === undefined;
  const before = passes;
  const settled = suite.settle({ timeoutSeconds: 20 }).catch(() => undefined);
  await eventually('the controller runs', () => Promise.resolve(passes > before));
  await suite.remove(customResourceDefinitions, { name: 'boards.example.com' });
  await suite.remove(teams, ref);
  await eventually('the owner is gone', isGone);
  await settled;
});

test('a controller that starts again for a new kind does not wait for another one that is not served anymore', async () => {
  const controller = define({
    owns: [owning(boards), owning(racks)],
    reconcile: async (_team, { apply }) => {
      await apply({ apiVersion: 'example.com/v1', kind: 'Rack', metadata: { name: 'blue' } });
    },
  });
  const suite = await startSuite(controller, crd(boards));
  await suite.apply(team('blue'));
  const settled = suite.settle({ timeoutSeconds: 25 }).catch(() => undefined);
  const isRefused = async () => {
    const found = await suite.get(teams, { namespace: 'default', name: 'blue' });
    return JSON.stringify(found).includes('the API server does not serve Rack');
  };
  await eventually('a pass failed', isRefused, { timeoutMs: 10_000 });
  await suite.remove(customResourceDefinitions, { name: 'boards.example.com' });
  await suite.apply(crd(racks));
  const isApplied = async () => (await suite.get(racks, { name: 'blue' })) !== undefined;
  await eventually('the Rack', isApplied, { timeoutMs: 14_000 });
  await settled;
});

test('a controller that changes an object in each pass is delayed, and its author learns which object', async () => {
  let passes = 0;
  const controller = define({
    owns: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'] }],
    reconcile: async (_team, { apply }) => {
      passes += 1;
      const metadata = { name: 'time', namespace: 'default' };
      await apply({
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata,
        data: { passes: String(passes) },
      } as never);
    },
  });
  const suite = await startSuite(controller);
  await suite.apply(team('blue'));
  await expect(suite.settle()).rejects.toThrow('each pass changes data.passes of ConfigMap default/time');
  expect(passes).toBeLessThan(20);
});

const deployments = resourceOf('apps', 'deployments', 'Deployment');
const at = (name: string) => ({ namespace: 'default', name });
const waiting = define({
  owns: [owning(deployments)],
  reconcile: async ({ metadata }, { apply, wait, requeueAfter, status, event }) => {
    const labels = { app: metadata?.name ?? '' };
    const template = { metadata: { labels }, spec: { containers: [{ name: 'a', image: 'a' }] } };
    const spec = { selector: { matchLabels: labels }, template };
    const place = at(metadata?.name ?? '');
    const deployed = await apply({ apiVersion: 'apps/v1', kind: 'Deployment', metadata: place, spec });
    if (deployed.status?.readyReplicas === 1) {
      event('Normal', 'Ready', 'the pod is ready');
      requeueAfter(3_600);
      status({ ready: true });
    } else wait('Starting', 'the pod is not ready');
  },
});

test('a test acts as the controller of a child: the status of the child makes the parent ready', async () => {
  const suite = await startSuite(waiting);
  await suite.apply(team('blue'));
  const first = await suite.settle();
  expect(first.waiting).toEqual([
    { object: 'default/blue', reason: 'Starting', message: 'the pod is not ready' },
  ]);
  expect(first.writes).toContain('PATCH /apis/apps/v1/namespaces/default/deployments/blue');
  await suite.setStatus(deployments, at('blue'), { replicas: 1, readyReplicas: 1 });
  const { waiting: left } = await suite.settle();
  expect(left).toEqual([]);
  expect(await suite.get(teams, at('blue'))).toMatchObject({ status: { ready: true } });
  expect(suite.events()).toContainEqual({
    type: 'Normal',
    reason: 'Ready',
    message: 'the pod is ready',
    object: 'Team default/blue',
  });
  expect(await suite.list(deployments)).toHaveLength(1);
});

test('time moves for the controller only by hand', async () => {
  const seen: number[] = [];
  const suite = await startSuite(
    define({
      reconcile: (_team, { now, condition }) => {
        seen.push(now().getTime());
        condition('Seen', 'True', 'Seen');
      },
    }),
  );
  await suite.apply(team('blue'));
  await suite.settle();
  suite.advance(86_400);
  await suite.settle();
  expect((seen.at(-1) ?? 0) - (seen[0] ?? 0)).toBeGreaterThan(86_400_000);
  const { status } = (await suite.get(teams, at('blue'))) as { status?: { conditions?: object[] } };
  expect(status?.conditions).toHaveLength(2);
});

test('a pass that fails a few times is tried again at once; one that always fails ends the test with its error', async () => {
  let failures = 2;
  const suite = await startSuite(
    define({
      reconcile: () => {
        if ((failures -= 1) >= 0) throw new Error('no disk', { cause: new Error('ECONNREFUSED') });
      },
    }),
  );
  await suite.apply(team('blue'));
  await suite.settle();
  failures = Number.POSITIVE_INFINITY;
  await expect(suite.settle()).rejects.toThrow(
    'a pass of default/blue fails again and again: no disk: ECONNREFUSED',
  );
  expect(suite.logs().join('')).toContain('ECONNREFUSED');
});

/** The world of a controller that watches Teams and owns Teams. `stopWatching` makes its stores late. */
async function startWorld(
  before: (client: KubeClient, writes: OwnWrites) => Promise<void> = () => Promise.resolve(),
) {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-world-'));
  const api = await startApi(0, folder);
  const ended = new AbortController();
  const log = pino({ level: 'silent' });
  const config = resolveConfig({ namespace: NAMESPACE }, {});
  const parts = { ...{ config, identity: 'test', metrics: createMetrics(), log }, tracing: undefined };
  const { context, close } = await connect(api.connectAsAdmin(), parts, ended.signal);
  ends.push(async () => {
    ended.abort();
    await close();
    await api.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  const { client, discovery } = context;
  await applyManifests({ client, discovery, namespace: 'default' }, [crd(teams)]);
  await eventually('Teams are served', () => client.list(teams));
  const controller = compileController(
    'teams',
    define({ owns: [owning(teams)], reconcile: () => undefined }),
  );
  const writes = createOwnWrites();
  const enqueued: string[] = [];
  const kinds = [teams, teams] as const;
  await before(client, writes);
  const watching = new AbortController();
  const enqueue = (key: string) => enqueued.push(key);
  const stores = watchKinds(
    context,
    controller,
    kinds,
    { sources: [], isStarted: () => true, writes, settled: new Map() },
    enqueue,
    watching.signal,
  );
  await stores.whenSynced(ended.signal);
  const world = createClusterWorld(
    { ...context, clock: systemClock, metric: () => undefined, record: () => undefined },
    controller,
    kinds,
    stores,
    { writes, unreadable: [] },
  );
  return { client, controller, world, enqueued, stopWatching: () => watching.abort() };
}

const { signal } = new AbortController();

test('an applied object of the watched kind gets a pass, although the controller wrote it', async () => {
  const { enqueued } = await startWorld(async (client, writes) => {
    const object = await client.create<KubeObject>(teams, team('child'));
    writes.applied(writeKey(teams, 'default/child'), { kind: teams, object });
  });
  expect(enqueued).toContain('default/child');
});

test('what was applied a moment ago is pruned, although no store has it yet', async () => {
  const { controller, world, stopWatching } = await startWorld();
  stopWatching();
  const owner = await world.apply(teams, team('owner'), 'create', signal);
  const mark = ownerMark(controller, 'default/owner');
  const desired = desiredObject(team('late'), { object: owner, mark }, controller);
  await world.apply(teams, desired, 'create', signal);
  const names = (await world.owned(mark)).map(({ object }) => object.metadata?.name);
  expect(names).toEqual(['late']);
});

describe('a status that is based on an older version', () => {
  const place = { namespace: 'default', name: 'blue' };
  const patch = async (change: object) => {
    const { client, world } = await startWorld();
    const before = await client.create<KubeObject>(teams, { ...team('blue'), ...{ spec: { size: 1 } } });
    await client.patchMerge(teams, place, change);
    if ('status' in change) await client.patchStatus(teams, place, change);
    await world.patchStatus(teams, before, { address: 'a' }, signal);
    return await client.get<KubeObject>(teams, place);
  };

  test('is written if only labels or annotations have changed: tools write them all the time', async () => {
    const metadata = { labels: { a: 'b' }, annotations: { at: 'noon' } };
    expect(await patch({ metadata })).toMatchObject({ metadata, status: { address: 'a' } });
  });

  test.each<[string, object]>([
    ['spec', { spec: { size: 2 } }],
    ['status, by another leader', { status: { machineId: 'm' } }],
    ['finalizers', { metadata: { finalizers: ['example.com/other'] } }],
  ])('is refused if the %s has changed', async (_what, change) => {
    await expect(patch(change)).rejects.toMatchObject({ code: 409 });
  });
});

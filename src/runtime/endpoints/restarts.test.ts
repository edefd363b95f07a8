import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ApiError, containing, createCluster, silent } from '../../../test/support/runtime/fixtures.ts';
import type { KubeObject, ObjectMeta } from '../../json/kube-object.ts';
import { systemClock } from '../../kube/clock.ts';
import * as kinds from '../../kube/well-known.ts';
import { RESTORE_WINDOWS } from '../resources.ts';
import { planRestart, type Workload } from './restart-plan.ts';
import type { ConfigMap } from '../certificates/ca-bundle.ts';
import { createReportReconciler, reportOf } from './report.ts';
import { createRestarts } from './restarts.ts';
import type { StaleService } from './served-certs.ts';

const { configMaps, deployments, pods, services } = kinds;
const MINUTE = 60_000;
const now = new Date('2026-11-23T12:00:00Z');
beforeEach(() => void vi.useFakeTimers({ now }));
afterEach(() => void vi.useRealTimers());

const WANTED = { 'gatehouse.dev/restart-on-renewal': 'true' };
const DONE = { observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1 };
const selector = (app: string) => ({ matchLabels: { app } });
const metadata = (namespace: string, name: string, more: ObjectMeta = {}): ObjectMeta => ({
  namespace,
  name,
  uid: `uid-of-${namespace}-${name}`,
  generation: 1,
  creationTimestamp: '2026-11-01T00:00:00Z',
  ...more,
});
const ownedBy = (kind: string, namespace: string, name: string): ObjectMeta => {
  const uid = `uid-of-${namespace}-${name}`;
  return { ownerReferences: [{ apiVersion: 'apps/v1', kind, name, uid, controller: true }] };
};

const cluster = createCluster();
const stale = new Map<string, StaleService>();
let stop: AbortController;
beforeEach(() => {
  cluster.reset();
  stale.clear();
  stop = new AbortController();
});
afterEach(() => {
  stop.abort();
  vi.restoreAllMocks();
});

type Kind = Parameters<typeof cluster.objects>[0];
const add = (resource: Kind, object: object) => cluster.objects<KubeObject>(resource).add(object);
const patch = (resource: Kind, key: string, change: object) => cluster.objects(resource).patch(key, change);
/** The leader ends, and the next one begins. */
const endLeader = () => {
  stop.abort();
  stop = new AbortController();
};

/** A Deployment with one pod behind a Service, all of one name. The pod presents an earlier certificate than `leaf`. */
function addScene(namespace: string, name: string, leaf = 'leaf-of-today-0123'): void {
  const labels = { app: name, tier: 'all' };
  const set = `${name}-rs`;
  add(services, { metadata: metadata(namespace, name), spec: { selector: labels } });
  add(deployments, {
    metadata: metadata(namespace, name, { annotations: WANTED }),
    spec: { replicas: 1, selector: selector(name), template: { metadata: { labels } } },
    status: DONE,
  });
  add(kinds.replicaSets, {
    metadata: metadata(namespace, set, ownedBy('Deployment', namespace, name)),
    spec: { selector: selector(name) },
  });
  add(pods, {
    metadata: metadata(namespace, `${name}-1`, { labels, ...ownedBy('ReplicaSet', namespace, set) }),
    status: { podIP: '10.0.0.1' },
  });
  const uid = `uid-of-${namespace}-${name}`;
  stale.set(`${namespace}/${name}`, {
    service: { namespace, name, uid, secretName: `${name}-tls`, leaf, serverName: '', endpoints: [] },
    servers: [{ pod: `${name}-1`, address: '10.0.0.1', since: 0, notAfter: now }],
  });
}

const deployment = (key = 'shop/api') => cluster.objects<Workload>(deployments).read(key);
const restartedAt = (key?: string) =>
  deployment(key)?.spec?.template?.metadata?.annotations?.['kubectl.kubernetes.io/restartedAt'];
const edit = (change: object, key = 'shop/api') => patch(deployments, key, change);

/** As the controller of Deployments does: it sees the new template, and replaces the pods some time later. */
const roll = (key: string, status: Partial<Workload['status']>) => edit({ status }, key);

function restarter() {
  const { events } = cluster;
  const outcomes: string[] = [];
  const warnings: unknown[] = [];
  const notice = createRestarts(
    {
      client: cluster.client,
      config: { namespace: 'gatehouse-system', without: [], endpointProbes: { reloadMs: 2 * MINUTE } },
      metrics: { workloadRestart: (outcome) => outcomes.push(outcome) },
      record: events.record,
      serverClock: { now: () => new Date() },
      clock: systemClock,
      log: { ...silent, warn: (_fields, message) => void warnings.push(message) },
    },
    { staleIn: (key) => stale.get(key) },
    stop.signal,
  );
  const look = async (...keys: readonly string[]) => {
    for (const key of keys) notice(key);
    await vi.advanceTimersByTimeAsync(1);
  };
  return { look, events, outcomes, warnings };
}

test('a stale workload is restarted once, with Events on it and on the Service; then a Warning, even after a leader change', async () => {
  addScene('shop', 'api');
  const { look, events, outcomes } = restarter();
  await look('shop/api');
  const first = restartedAt();
  expect(first).toBe('2026-11-23T12:00:00.000Z');
  expect(outcomes).toEqual(['restarted']);
  expect(events.all.map(({ regarding, reason }) => [regarding.kind, reason])).toEqual([
    ['Deployment', 'RestartedForCertificate'],
    ['Service', 'RestartedForCertificate'],
  ]);
  endLeader();
  await vi.advanceTimersByTimeAsync(10 * MINUTE);
  const next = restarter();
  await next.look('shop/api');
  await next.look('shop/api');
  expect(restartedAt()).toBe(first);
  expect(next.outcomes).toEqual(['refused']);
  const message = containing('a restart for this certificate did not help');
  expect(next.events.all[2]).toMatchObject({ type: 'Warning', reason: 'RestartRefused', message });
  addScene('shop', 'api', 'leaf-of-tomorrow-1');
  edit({ metadata: { annotations: { 'gatehouse.dev/restarted-for': 'a' } } });
  await next.look('shop/api');
  expect(deployment()?.metadata?.annotations?.['gatehouse.dev/restarted-for']).toBe('leaf-of-tomorrow,a');
});

test('a GitOps tool that removes both records causes no loop, and the next leader knows one of them', async () => {
  const withoutRecord = { metadata: { annotations: { 'gatehouse.dev/restarted-for': null } } };
  for (const name of ['api', 'web']) addScene('shop', name);
  const { look, outcomes } = restarter();
  await look('shop/api');
  edit({ ...withoutRecord, spec: { template: null } });
  await vi.advanceTimersByTimeAsync(5_000);
  expect(outcomes).toEqual(['restarted', 'refused']);
  await look('shop/web');
  endLeader();
  edit(withoutRecord, 'shop/web');
  const next = restarter();
  await next.look('shop/web');
  expect(next.outcomes).toEqual(['refused']);
});

/** The rollouts last until the test ends them. */
function hangingRollouts(after: () => void = () => undefined): void {
  const { patchMerge } = cluster.client;
  vi.spyOn(cluster.client, 'patchMerge').mockImplementation(async (resource, ref, body) => {
    const patched = await patchMerge(resource, ref, body);
    roll(`${ref.namespace ?? ''}/${ref.name}`, { updatedReplicas: 0 });
    after();
    return patched;
  });
}
const restarted = () =>
  cluster
    .objects<Workload>(deployments)
    .list()
    .map(({ metadata: { namespace = '', name = '' } = {} }) => `${namespace}/${name}`)
    .filter((key) => restartedAt(key) !== undefined);

test('one workload at a time in the cluster, and namespaces take turns', async () => {
  for (const name of ['a', 'b', 'c']) addScene('greedy', name);
  addScene('shop', 'api');
  hangingRollouts();
  const { look, outcomes } = restarter();
  await look('greedy/a', 'greedy/b', 'greedy/c', 'shop/api');
  await vi.advanceTimersByTimeAsync(5 * MINUTE);
  expect(restarted()).toEqual(['greedy/a']);
  roll('greedy/a', { updatedReplicas: 1 });
  await vi.advanceTimersByTimeAsync(5_000);
  expect(restarted()).toEqual(['greedy/a', 'greedy/b']);
  await vi.advanceTimersByTimeAsync(10 * MINUTE); // a rollout that hangs holds up others no longer than this
  expect(restarted()).toEqual(['greedy/a', 'greedy/b', 'shop/api']);
  expect(outcomes).toEqual(['restarted', 'restarted', 'unfinished', 'restarted']);
});

describe('the next workload waits', () => {
  beforeEach(() => {
    addScene('shop', 'a');
    addScene('shop', 'b');
  });
  const waits = async () => {
    await restarter().look('shop/a', 'shop/b');
    await vi.advanceTimersByTimeAsync(5 * MINUTE);
    expect(restarted()).toEqual(['shop/a']);
    roll('shop/a', { updatedReplicas: 1 });
    await vi.advanceTimersByTimeAsync(5_000);
    expect(restarted()).toEqual(['shop/a', 'shop/b']);
  };

  test('although the answer to the restart is lost', async () => {
    let isFirst = true;
    hangingRollouts(() => {
      if (!isFirst) return;
      isFirst = false;
      throw new ApiError(504, 'timeout');
    });
    await waits();
  });

  /** A leader restarts shop/a, and ends during the rollout. */
  const leaderEndsDuringRollout = async () => {
    hangingRollouts();
    await restarter().look('shop/a');
    endLeader();
  };

  test('for a rollout that an earlier leader began, at most ten minutes', async () => {
    await leaderEndsDuringRollout();
    const next = restarter();
    await next.look('shop/b');
    const message = containing('Deployment shop/a, which an earlier leader restarted');
    expect(next.events.all[2]).toMatchObject({ reason: 'RestartWaiting', message });
    await vi.advanceTimersByTimeAsync(10 * MINUTE - 10);
    await next.look('shop/b');
    expect(restarted()).toEqual(['shop/a']);
    await vi.advanceTimersByTimeAsync(10);
    await next.look('shop/b');
    expect(restarted()).toEqual(['shop/a', 'shop/b']);
  });

  test('however often leaders change: the wait does not begin again', async () => {
    await leaderEndsDuringRollout();
    for (let leader = 0; leader < 6; leader++) {
      await restarter().look('shop/b');
      await vi.advanceTimersByTimeAsync(2 * MINUTE);
      endLeader();
    }
    expect(restarted()).toEqual(['shop/a', 'shop/b']);
  });

  test('for another leader that records its restart at the same time', async () => {
    const { get } = cluster.client;
    vi.spyOn(cluster.client, 'get').mockImplementation(async (resource, ...rest) => {
      const live = await get(resource, ...rest);
      // It writes between the read and the write of this leader.
      if (resource.resource === 'configmaps' && live === undefined)
        add(configMaps, { metadata: { namespace: 'gatehouse-system', name: 'gatehouse-served-certs' } });
      return live;
    });
    const { look, warnings } = restarter();
    await look('shop/a');
    expect([restarted(), warnings]).toEqual([[], ['could not restart a stale workload']]);
  });
});

test('the report and the record of a restart keep each other', async () => {
  addScene('shop', 'api');
  hangingRollouts();
  await restarter().look('shop/api');
  const none = { current: 0, stale: 0, foreign: 0, unreachable: 0, plain: 0, unknown: 0 };
  const read = () => reportOf(none, [], now, () => now);
  const report = createReportReconciler(cluster.client, 'gatehouse-system', read);
  await report('gatehouse-served-certs', stop.signal);
  const stored = cluster.objects<ConfigMap>(configMaps);
  const keys = () => Object.keys(stored.read('gatehouse-system/gatehouse-served-certs')?.data ?? {});
  expect(keys().toSorted()).toEqual(['report.json', 'restart.json']);
  roll('shop/api', { updatedReplicas: 1 });
  await vi.advanceTimersByTimeAsync(5_000);
  expect(keys()).toEqual(['report.json']);
});

test('of many stale pods, each has its turn: the first ones may belong to a workload that is not restarted', async () => {
  for (const name of ['a', 'b']) addScene('shop', name);
  edit({ metadata: { annotations: null } }, 'shop/a');
  const labels = { app: 'a', tier: 'all' };
  const others = Array.from({ length: 24 }, (_, n) => ({ name: `a-${n + 2}`, podIP: `10.0.1.${n}` }));
  for (const { name, podIP } of others)
    add(pods, {
      metadata: metadata('shop', name, { labels, ...ownedBy('ReplicaSet', 'shop', 'a-rs') }),
      status: { podIP },
    });
  patch(services, 'shop/a', { spec: { selector: { app: null, tier: 'all' } } });
  const one = stale.get('shop/a');
  if (one === undefined) throw new Error('nothing is stale');
  const of = (pod: string, address: string) => ({ pod, address, since: 0, notAfter: now });
  const servers = [...others.map(({ name, podIP }) => of(name, podIP)), of('b-1', '10.0.0.1')];
  stale.set('shop/a', { ...one, servers });
  const { look } = restarter();
  for (let turn = 0; turn < 3; turn++) await look('shop/a');
  expect(restarted()).toEqual(['shop/b']);
});

describe('nothing is restarted', () => {
  const window = {
    metadata: { name: 'w', creationTimestamp: now.toISOString() },
    spec: { expiresAt: '2026-11-23T13:00:00Z' },
  };
  const YOUNG = '2026-11-23T11:59:00Z';
  const untouched = async (change: () => void = () => undefined) => {
    addScene('shop', 'api');
    change();
    const { look, events, outcomes, warnings } = restarter();
    await look('shop/api');
    expect(restartedAt()).toBeUndefined();
    return { events, outcomes, warnings };
  };

  test.each<[string, Kind, object]>([
    ['without the annotation', deployments, { metadata: { annotations: null } }],
    ['if the pod has another address: the EndpointSlice is forged', pods, { status: { podIP: '10.0.0.2' } }],
    ['if the Service does not select the pod', services, { spec: { selector: { app: 'web' } } }],
    ['if the owner has another uid: the reference is forged', deployments, { metadata: { uid: 'another' } }],
    ['if the owner does not select the pod', deployments, { spec: { selector: selector('web') } }],
    ['if the pod is being deleted', pods, { metadata: { deletionTimestamp: now.toISOString() } }],
    ['if the pod is younger than the answer', pods, { metadata: { creationTimestamp: YOUNG } }],
    ['if another controller owns the pod', pods, { metadata: ownedBy('Rollout', 'shop', 'api') }],
    ['if the Service was made again', services, { metadata: { uid: 'new' } }],
  ])('%s', async (_why, kind, change) => {
    const { events, outcomes } = await untouched(() => {
      patch(kind, kind === pods ? 'shop/api-1' : 'shop/api', change);
    });
    expect([events.all, outcomes]).toEqual([[], []]);
  });

  test.each<[string, () => void, string]>([
    ['while a rollout runs', () => roll('shop/api', { updatedReplicas: 0 }), 'not all of its pods are'],
    ['while the rollout is paused', () => edit({ spec: { paused: true } }), 'its rollout is paused'],
    ['while a restore window is open', () => add(RESTORE_WINDOWS, window), 'the restore window w is open'],
  ])('%s, and an Event says why', async (_why, change, text) => {
    const { events, outcomes } = await untouched(change);
    const message = containing(text);
    expect(events.all[0]).toMatchObject({ type: 'Normal', reason: 'RestartWaiting', message });
    expect(outcomes).toEqual([]);
  });

  test('if the API server refuses the patch, and the Event quotes its answer', async () => {
    vi.spyOn(cluster.client, 'patchMerge').mockRejectedValue(new ApiError(422, 'the policy says no'));
    const { events, outcomes } = await untouched();
    const message = containing('the policy says no');
    expect(events.all[0]).toMatchObject({ type: 'Warning', reason: 'RestartRefused', message });
    expect(outcomes).toEqual(['refused']);
  });

  test('if the workload has changed since it was read', async () => {
    const { patchMerge } = cluster.client;
    vi.spyOn(cluster.client, 'patchMerge').mockImplementation(async (...args) => {
      edit({ spec: { replicas: 3 } });
      return await patchMerge(...args);
    });
    const { outcomes, warnings } = await untouched();
    expect([outcomes, warnings]).toEqual([[], ['could not restart a stale workload']]);
  });
});

test.each([
  ['a StatefulSet', kinds.statefulSets, { updateStrategy: { type: 'RollingUpdate' } }],
  ['a DaemonSet', kinds.daemonSets, {}],
])('%s is restarted as well', async (_what, resource, spec) => {
  addScene('shop', 'api');
  const status = { ...DONE, desiredNumberScheduled: 1, updatedNumberScheduled: 1, numberAvailable: 1 };
  add(resource, {
    metadata: metadata('shop', 'set', { annotations: WANTED }),
    spec: { ...spec, selector: selector('api') },
    status,
  });
  patch(pods, 'shop/api-1', { metadata: ownedBy(resource.kind, 'shop', 'set') });
  await restarter().look('shop/api');
  const { template } = cluster.objects<Workload>(resource).read('shop/set')?.spec ?? {};
  expect(template?.metadata?.annotations).toHaveProperty(['kubectl.kubernetes.io/restartedAt']);
});

const updating = (updateStrategy: object): Workload => ({ spec: { updateStrategy } });
const odd: Workload = { metadata: { annotations: { 'gatehouse.dev/restart-on-renewal': 'yes' } } };

test.each<[string, Workload, string]>([
  ['OnDelete', updating({ type: 'OnDelete' }), 'does not replace all pods'],
  ['a partition', updating({ rollingUpdate: { partition: 1 } }), 'does not replace all pods'],
  ['a wrong annotation', odd, 'must be "true" or "false"'],
])('a workload with %s is not restarted, and the reason is given', (_what, change, why) => {
  const healthy: Workload = { metadata: { generation: 1, annotations: WANTED }, spec: {}, status: DONE };
  expect(planRestart(healthy, 'leaf', false)).toEqual({ kind: 'restart' });
  const refused = { kind: 'refuse', why: containing(why) };
  expect(planRestart({ ...healthy, ...change }, 'leaf', false)).toEqual(refused);
});

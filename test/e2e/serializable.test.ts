// suite: shared-plane, sandbox: long, slow
import { setTimeout as sleep } from 'node:timers/promises';

import { afterAll, beforeAll, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { ApiError } from '../../src/kube/api-error.ts';
import { UNIQUE_CLAIMS } from '../../src/runtime/resources.ts';
import { type Balancer } from '../support/balancer.ts';
import { createNamespace, DATACENTERS, SERVERS, type Cluster } from '../support/cluster.ts';
import {
  refusal,
  seeInForce,
  untilRefused,
  startBalanced,
  installExamples,
} from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { datacenter, server, serversPolicy, toDatacenter } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';

/** Long enough for a write in flight, short enough for a test to wait. */
const SETTLE_MS = 6_000;
/** Racing pairs. The nightly run races 10,000. */
const PAIRS = Number(process.env.GATEHOUSE_PAIRS ?? 160);
const AT_ONCE = 10;
/** A replica is killed after so many pairs. */
const KILL_EVERY = 100;

let balancer: Balancer;
let cluster: Cluster;
const replicas: Replica[] = [];

const start = (name: string): Promise<Replica> =>
  startReplica(cluster.plane, {
    name,
    servicePort: balancer.port,
    // Shorter than an unused intent is held.
    settings: { 'unique-settle': `${SETTLE_MS}ms`, 'drain-delay': '1s' },
  });

beforeAll(async () => {
  ({ balancer, cluster } = await startBalanced());
  replicas.push(...(await Promise.all(['one', 'two', 'three'].map(start))));
  balancer.setBackends(replicas.map(({ port }) => port));
  await Promise.all(replicas.map((replica) => replica.whenReady()));
  await installExamples(cluster);
  await createNamespace(cluster, 'shop');
  const reference = { ...toDatacenter, onTargetDelete: 'Restrict', guarantee: 'Serializable' };
  await cluster.apply(serversPolicy('keys', { validate: { references: [reference] } }));
  await seeInForce(cluster, 'keys');
  await dc('probe');
  await create('probe', 'probe');
  await untilRefused('deleting probe', 'still referenced by', () =>
    cluster.admin.delete(DATACENTERS, { name: 'probe' }, { dryRun: true }),
  );
});

afterAll(() => cluster.stop());

const dc = (name: string) => cluster.admin.create(DATACENTERS, datacenter(name));
const create = (name: string, datacenterName: string, options: { dryRun?: boolean } = {}) =>
  cluster.admin.create(SERVERS, server('shop', name, datacenterName), options);
const removeDc = (name: string) => cluster.admin.delete(DATACENTERS, { name });
const intents = async () =>
  (await cluster.admin.listAll<KubeObject>(UNIQUE_CLAIMS)).items.map(({ metadata }) => metadata?.name ?? '');

test('a target cannot be deleted right after a referrer is created, and can be right after the referrer is deleted', async () => {
  for (let n = 1; n <= 10; n++) {
    await dc(`next-${n}`);
    await create(`next-${n}`, `next-${n}`);
    expect((await refusal(removeDc(`next-${n}`))).message).toContain('still referenced by');
    await cluster.admin.delete(SERVERS, { namespace: 'shop', name: `next-${n}` });
    await removeDc(`next-${n}`);
    expect((await refusal(create(`next-${n}`, `next-${n}`))).message).toContain(
      'not found; create it or fix the name',
    );
  }
});

/** Whether the request succeeded. A request that the death of a replica has cut off has an unknown result. */
async function outcomeOf(request: Promise<unknown>): Promise<'done' | 'refused' | 'busy' | 'unknown'> {
  try {
    await request;
    return 'done';
  } catch (error) {
    if (!(error instanceof ApiError)) return 'unknown';
    return error.code === 403 ? 'refused' : error.code === 429 ? 'busy' : 'unknown';
  }
}

test(
  'of a creation and a deletion that race, one succeeds, while replicas are killed',
  async () => {
    const counts = { created: 0, deleted: 0, neither: 0, unknown: 0 };
    const race = async (n: number): Promise<void> => {
      const name = `race-${n}`;
      await dc(name);
      const both = await Promise.all([outcomeOf(create(name, name)), outcomeOf(removeDc(name))]);
      const [created, deleted] = both;
      expect([name, both]).not.toEqual([name, ['done', 'done']]);
      if (created === 'done') counts.created += 1;
      else if (deleted === 'done') counts.deleted += 1;
      else if (both.includes('unknown')) counts.unknown += 1;
      else counts.neither += 1;
    };
    for (let n = 0; n < PAIRS; n += AT_ONCE) {
      const races = Array.from({ length: AT_ONCE }, (_, index) => race(n + index));
      if (n % KILL_EVERY === KILL_EVERY / 2) await killOne();
      await Promise.all(races);
    }
    console.log(counts);
    const servers = (await cluster.admin.listAll<ReturnType<typeof server>>(SERVERS)).items;
    const datacenters = (await cluster.admin.listAll(DATACENTERS)).items;
    const names = new Set(datacenters.map(({ metadata }) => metadata?.name));
    expect(servers.filter((one) => !names.has(datacenterOf(one)))).toEqual([]);
    expect(counts.created + counts.deleted).toBeGreaterThan(PAIRS / 2);
    expect(counts.neither).toBeLessThanOrEqual(Math.ceil(PAIRS / 100));

    // No deletion is lost: once the settle time is over, a target without referrers can be deleted.
    const used = new Set(servers.map(datacenterOf));
    const unused = [...names].filter((name) => name?.startsWith('race-') === true && !used.has(name));
    for (const name of unused) await eventually(`${name} can be deleted`, () => removeDc(name ?? ''));
  },
  120_000 + PAIRS * 500,
);

test('of many creations under held intents and a deletion, the deletion or all later creations fail', async () => {
  const outcomes = new Map<string, number>();
  for (let n = 0; n < 10; n++) {
    const name = `busy-${n}`;
    await dc(name);
    // Each replica stores an intent for the target; nothing is left that names it.
    for (let first = 0; first < 6; first++) {
      await create(`${name}-first-${first}`, name);
      await cluster.admin.delete(SERVERS, { namespace: 'shop', name: `${name}-first-${first}` });
    }
    const creating = Array.from({ length: 20 }, async (_, index) => {
      await sleep(index * 5);
      return await outcomeOf(create(`${name}-${index}`, name));
    });
    const removing = sleep(n * 10).then(() => outcomeOf(removeDc(name)));
    const [removed, ...created] = await Promise.all([removing, ...creating]);
    const left = (await cluster.admin.listAll(SERVERS)).items.filter((one) => datacenterOf(one) === name);
    expect([name, removed, left.length]).toEqual([
      name,
      removed,
      created.filter((one) => one === 'done').length,
    ]);
    if (removed === 'done') expect([name, left]).toEqual([name, []]);
    outcomes.set(removed, (outcomes.get(removed) ?? 0) + 1);
  }
  console.log(outcomes);
});

test('replicas that are stopped remove the intents that they hold', async () => {
  await dc('stopping');
  let servers = 0;
  await eventually('a replica holds an intent', async () => {
    await create(`stopping-${++servers}`, 'stopping');
    return (await intents()).length > 0;
  });
  await Promise.all(replicas.map(({ program }) => program.stop(15_000)));
  expect(await intents()).toEqual([]);
});

const datacenterOf = (one: KubeObject): string =>
  (one as KubeObject & { readonly spec: { readonly datacenter: string } }).spec.datacenter;

/** Kills a replica with SIGKILL, and starts another one. */
async function killOne(): Promise<void> {
  const victim = replicas.shift();
  if (victim === undefined) throw new Error('there is no replica to kill');
  victim.program.kill('SIGKILL');
  balancer.setBackends(replicas.map(({ port }) => port));
  const next = await start(`${victim.name}-again`);
  replicas.push(next);
  await next.whenReady();
  balancer.setBackends(replicas.map(({ port }) => port));
}

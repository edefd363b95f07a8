// suite: shared-plane, sandbox: long, slow, nightly
/**
 * The bypass search: sequences of writes of every kind, with an oracle that only looks at what is stored. See
 * docs/development/testing.md.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';

import { createPlainClient, type PlainClient } from '../support/plain-client.ts';
import { handlerModules, policyManifests, restoreWindow, USERS, kindManifests } from '../bypass/kinds.ts';
import { folderOf, validObject } from '../bypass/objects.ts';
import { REASONS, search, type Found } from '../bypass/search.ts';
import { VIAS } from '../bypass/steps.ts';
import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import { type Balancer } from '../support/balancer.ts';
import { createNamespace, established, RESTORE_WINDOWS, type Cluster } from '../support/cluster.ts';
import { testsSandbox } from '../support/control-plane.ts';
import { seeConverting } from '../support/conversion-objects.ts';
import { seeInForce, startBalanced } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica, sumOf } from '../support/gatehouse.ts';
import { handlerFolder } from '../support/handler-folder.ts';
import { isNightly } from '../support/nightly.ts';
import { eventually } from '../support/processes.ts';

const SEED = Number(process.env.GATEHOUSE_BYPASS_SEED ?? (isNightly ? Date.now() % 1_000_000 : 1));
/** In CI, the API server gets 250; the sandbox, every night, the first 200 of them. */
const DEFAULT_COUNT = testsSandbox() ? 200 : 120;
const COUNT = Number(process.env.GATEHOUSE_BYPASS_PATHS ?? (isNightly ? 10_000 : DEFAULT_COUNT));
const REPLAY = process.env.GATEHOUSE_BYPASS_PATH;
/** Short paths find most holes, and take less time. */
const STEPS = isNightly ? 15 : 10;
const LANES = 8;
const REDUCE_MS = 120_000;
const TIMEOUT_MS = isNightly ? 7_200_000 : 600_000;

let balancer: Balancer;
let cluster: Cluster;
let replicas: readonly Replica[] = [];
let client: PlainClient;
const handlers = handlerFolder(handlerModules);

beforeAll(async () => {
  ({ balancer, cluster } = await startBalanced());
  await addReplica('one');
  await cluster.apply(
    ...kindManifests(balancer.port),
    ...Object.values(USERS).map((user) => clusterAdmin(`bypass-${user.toLowerCase()}-${user.length}`, user)),
  );
  await established(cluster, 'widgets.bypass.example.com');
  await established(cluster, 'bins.bypass.example.com');
  await seeConverting(cluster, 'bypass-widgets');
  await cluster.apply(...policyManifests);
  for (const { metadata } of policyManifests) await seeInForce(cluster, metadata?.name ?? '');
  await cluster.admin.create(RESTORE_WINDOWS, restoreWindow());
  client = createPlainClient(cluster.plane, 2 * LANES);
  await createNamespace(cluster, 'probe');
  await untilEnforced();
});

afterAll(async () => {
  await client.stop();
  await cluster.stop();
});

async function addReplica(name: string): Promise<void> {
  const replica = await startReplica(cluster.plane, {
    name,
    servicePort: balancer.port,
    settings: { handlers },
  });
  replicas = [...replicas, replica];
  await replica.whenReady();
  balancer.setBackends(replicas.map(({ port }) => port));
}

/** The API server learns of the webhooks after the policies are in force, and Gatehouse of the window. */
async function untilEnforced(): Promise<void> {
  const widget = { kind: 'widgets', name: 'probe', version: 'v1' } as const;
  const deployment = { ...widget, kind: 'deployments' } as const;
  const code = async (write: typeof widget | typeof deployment, as: string, change: object) => {
    const path = `${folderOf(write, 'probe')}?dryRun=All`;
    const body = { ...validObject(write), ...change };
    return (await client.ask({ method: 'POST', path, as, body })).code;
  };
  const lost = { spec: { bin: 'nowhere', color: 'red' } };
  await eventually('Widgets are checked', async () => (await code(widget, USERS.alice, lost)) === 403);
  await eventually('the window is open', async () => (await code(widget, USERS.restorer, lost)) === 201);
  await eventually(
    'Deployments are checked',
    async () => (await code(deployment, USERS.alice, { metadata: { name: 'probe' } })) === 403,
  );
}

async function searchPaths(count: number): Promise<Found> {
  const from = performance.now();
  const found = await search({
    client,
    seed: SEED,
    count,
    steps: STEPS,
    lanes: LANES,
    replicas: replicas.length,
    reduceMs: REDUCE_MS,
    overloads: () => sumOf(replicas, 'gatehouse_admission_reviews_refused_total'),
    replay: REPLAY,
  });
  const { failure, paths, writes, tally } = found;
  const seconds = ((performance.now() - from) / 1_000).toFixed(1);
  console.log(
    [
      `${paths} paths with ${writes} writes in ${seconds} s, ${replicas.length} replicas`,
      ...VIAS.map(
        (via) => `${via}: ${tally.stored.get(via) ?? 0} stored, ${tally.refused.get(via) ?? 0} refused`,
      ),
      ...REASONS.map((reason) => `refused with "${reason}": ${tally.reasons.get(reason) ?? 0}`),
    ].join('\n'),
  );
  if (failure !== undefined) expect.fail(failure);
  return found;
}

test(
  `no path stores a violation: GATEHOUSE_BYPASS_SEED=${SEED}`,
  async () => {
    const { tally } = await searchPaths(COUNT);
    // A search that writes nothing, or in which no check ever refuses, finds nothing. A short one may miss some.
    if (REPLAY !== undefined || COUNT < 200) return;
    const isServed = (via: string) => !(testsSandbox() && via === 'evict'); // the sandbox does not evict
    expect(VIAS.filter((via) => isServed(via) && !tally.stored.has(via))).toEqual([]);
    expect(REASONS.filter((reason) => !tally.reasons.has(reason))).toEqual([]);
  },
  TIMEOUT_MS,
);

test(
  `no path stores a violation when two replicas answer: GATEHOUSE_BYPASS_SEED=${SEED}`,
  async () => {
    await addReplica('two');
    await balancer.cut(1); // new connections lead to both
    await searchPaths(Math.ceil(COUNT / 5));
    const reviews = /^gatehouse_admission_duration_seconds_count\{/m;
    for (const replica of replicas) expect(await replica.metrics()).toMatch(reviews);
  },
  TIMEOUT_MS,
);

// suite: shared-plane, sandbox: yes, nightly
/**
 * The bypass search: sequences of writes of every kind, with an oracle that only looks at what is stored. See
 * docs/development/bypass-search.md.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';

import { createPlainClient, type PlainClient } from '../bypass/client.ts';
import { kindManifests, policyManifests, restoreWindow, USERS } from '../bypass/kinds.ts';
import { folderOf, validObject } from '../bypass/objects.ts';
import { REASONS, search } from '../bypass/search.ts';
import { VIAS } from '../bypass/steps.ts';
import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import { createNamespace, established, RESTORE_WINDOWS, type Cluster } from '../support/cluster.ts';
import { testsSandbox } from '../support/control-plane.ts';
import { seeInForce, startGatehouse } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { isNightly } from '../support/nightly.ts';
import { eventually } from '../support/processes.ts';

const SEED = Number(process.env.GATEHOUSE_BYPASS_SEED ?? (isNightly ? Date.now() % 1_000_000 : 1));
/** In CI, the API server gets all 500, and the sandbox the first 200 of them. */
const DEFAULT_COUNT = testsSandbox() ? 200 : 500;
const COUNT = Number(process.env.GATEHOUSE_BYPASS_PATHS ?? (isNightly ? 10_000 : DEFAULT_COUNT));
const REPLAY = process.env.GATEHOUSE_BYPASS_PATH;
/** Short paths find most holes, and take less time. */
const STEPS = isNightly ? 15 : 10;
const LANES = 8;
const REDUCE_MS = 120_000;
const TIMEOUT_MS = isNightly ? 7_200_000 : 300_000;

let cluster: Cluster;
let replica: Replica;
let client: PlainClient;

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({ controllers: ['clusterrole-aggregation'] }));
  await cluster.apply(
    ...kindManifests,
    ...Object.values(USERS).map((user) => clusterAdmin(`bypass-${user.toLowerCase()}-${user.length}`, user)),
  );
  await established(cluster, 'widgets.bypass.example.com');
  await established(cluster, 'bins.bypass.example.com');
  await cluster.apply(...policyManifests);
  for (const { metadata } of policyManifests) await seeInForce(cluster, metadata?.name ?? '');
  await cluster.admin.create(RESTORE_WINDOWS, restoreWindow());
  client = createPlainClient(cluster.plane, 2 * LANES);
  await createNamespace(cluster, 'probe');
  await untilEnforced();
});

afterAll(async () => {
  await client.stop();
  await replica.program.stop(15_000);
  await cluster.stop();
});

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

async function overloads(): Promise<number> {
  const counts = (await replica.metrics()).matchAll(
    /^gatehouse_admission_reviews_refused_total\{.*\} (\d+)$/gm,
  );
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

test(
  `no path stores a violation: GATEHOUSE_BYPASS_SEED=${SEED}`,
  async () => {
    const from = performance.now();
    const { failure, paths, writes, tally } = await search({
      client,
      seed: SEED,
      count: COUNT,
      steps: STEPS,
      lanes: LANES,
      reduceMs: REDUCE_MS,
      overloads,
      replay: REPLAY,
    });
    const seconds = ((performance.now() - from) / 1_000).toFixed(1);
    console.log(
      [
        `${paths} paths with ${writes} writes in ${seconds} s`,
        ...VIAS.map(
          (via) => `${via}: ${tally.stored.get(via) ?? 0} stored, ${tally.refused.get(via) ?? 0} refused`,
        ),
        ...REASONS.map((reason) => `refused with "${reason}": ${tally.reasons.get(reason) ?? 0}`),
      ].join('\n'),
    );
    if (failure !== undefined) expect.fail(failure);
    // A search that writes nothing, or in which no check ever refuses, finds nothing. A short one may miss some.
    if (REPLAY !== undefined || COUNT < 200) return;
    const isServed = (via: string) => !(testsSandbox() && via === 'evict'); // the sandbox has no evictions
    expect(VIAS.filter((via) => isServed(via) && !tally.stored.has(via))).toEqual([]);
    expect(REASONS.filter((reason) => !tally.reasons.has(reason))).toEqual([]);
  },
  TIMEOUT_MS,
);

/** Measures the resources of a replica under long load: heap, file descriptors, timers. */
import { setTimeout as sleep } from 'node:timers/promises';

import { UNIQUE_CLAIMS } from '../../src/runtime/resources.ts';
import { ADMISSION_POLICIES, createNamespace, startClusterFor, type Cluster } from '../support/cluster.ts';
import { seeInForce } from '../support/gatehouse-cluster.ts';
import { startReplica } from '../support/gatehouse.ts';
import { startLoad, type Load, type LoadResult } from '../support/load.ts';
import { freePort } from '../support/processes.ts';
import { createChanger } from './changer.ts';
import { readHoldings, type Holdings, withHoldings } from './preload.ts';
import { createReviewer } from './reviewer.ts';
import { createKinds, gadget, kindOf, policyOf, times } from './scene.ts';

export interface SteadyOptions {
  readonly minutes: number;
  readonly reviewsPerSecond: number;
  readonly changesPerSecond: number;
}

export interface Sample extends Holdings {
  readonly minute: number;
  /** The number of UniqueClaims in the cluster, which must not grow either. */
  readonly claims: number;
}

export interface Steady {
  readonly samples: readonly Sample[];
  readonly reviews: LoadResult;
  readonly changes: LoadResult;
  /** The number of correct responses for each sort of review. */
  readonly answered: Readonly<Record<string, number>>;
}

const KINDS = 10;
const FIXED = 50;
const NAMESPACE = 'shop';
/** The number of samples: one per minute in a run of 20 minutes. */
const SAMPLES = 20;
/** The maximum number of concurrent requests. More would only grow a queue in the client when the replica is slow. */
const LANES = 128;

export async function measureSteady(options: SteadyOptions): Promise<Steady> {
  const port = await freePort();
  const cluster = await startClusterFor(port);
  try {
    await prepare(cluster);
    const holdingsPort = await freePort(); // as late as possible: processes that start earlier also take ports
    const replica = await startReplica(cluster.plane, { name: 'one', port, ...withHoldings(holdingsPort) });
    try {
      await replica.whenReady();
      for (let index = 0; index < KINDS; index += 1) await seeInForce(cluster, `policy-${index}`);
      const reviewer = await createReviewer(cluster, {
        port,
        fixed: FIXED,
        kinds: KINDS,
        namespace: NAMESPACE,
      });
      const change = createChanger(cluster, { kinds: KINDS, namespace: NAMESPACE });
      const { reviewsPerSecond, changesPerSecond } = options;
      const reviews = startLoad({ perSecond: reviewsPerSecond, lanes: LANES, request: reviewer.send });
      const changes = startLoad({ perSecond: changesPerSecond, lanes: LANES, request: change });
      const samples = await sample(options.minutes, [changes, reviews], async () => ({
        ...(await readHoldings(holdingsPort)),
        claims: await countClaims(cluster),
      }));
      const result = {
        samples,
        changes: await changes.stop(),
        reviews: await reviews.stop(),
        answered: reviewer.answered(),
      };
      await reviewer.close();
      return result;
    } finally {
      await replica.program.stop(15_000);
    }
  } finally {
    await cluster.stop();
  }
}

async function prepare(cluster: Cluster): Promise<void> {
  await createKinds(cluster, KINDS);
  await createNamespace(cluster, NAMESPACE);
  await times(KINDS * FIXED, (at) => {
    const [index, n] = [at % KINDS, Math.floor(at / KINDS)];
    const spec = { partner: `fixed-${n}`, serial: `fixed-${index}-${n}`, size: 5, tier: 'standard' };
    return cluster.admin.create(kindOf(index), gadget(index, NAMESPACE, `fixed-${n}`, spec));
  });
  await times(KINDS, (index) =>
    cluster.admin.create(ADMISSION_POLICIES, policyOf(`policy-${index}`, index, KINDS)),
  );
}

/** Takes samples while no request is in flight, because the memory of a running request is not growth. */
async function sample(
  minutes: number,
  loads: readonly [Load, Load],
  look: () => Promise<Omit<Sample, 'minute'>>,
): Promise<readonly Sample[]> {
  const started = performance.now();
  const everyMs = (minutes * 60_000) / SAMPLES;
  const samples: Sample[] = [];
  for (let index = 1; index <= SAMPLES; index += 1) {
    await sleep(Math.max(0, started + index * everyMs - performance.now()));
    const held = await loads[0].between(() => loads[1].between(look));
    samples.push({ minute: (performance.now() - started) / 60_000, ...held });
  }
  return samples;
}

async function countClaims({ admin }: Cluster): Promise<number> {
  return (await admin.listAll(UNIQUE_CLAIMS, { metadataOnly: true })).items.length;
}

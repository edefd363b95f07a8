/** The faults of the chaos suite. Each documents which recovery it measures. */
import { setTimeout as sleep } from 'node:timers/promises';

import { secrets } from '../../src/kube/well-known.ts';
import { resourcePath } from '../../src/kube/object.ts';
import { ADMISSION_POLICIES, askForCertificate } from '../support/cluster.ts';
import { rotateAuthority } from '../support/end-trust.ts';
import { seeInForce } from '../support/gatehouse-cluster.ts';
import { eventually } from '../support/processes.ts';
import { machine, machinePolicy, MACHINES, rackPolicy, STAMP } from './kinds.ts';
import { answersReviews } from './replicas.ts';
import { SERVICES, type Scene } from './scene.ts';

export interface Fault {
  readonly name: string;
  readonly run: (scene: Scene) => Promise<number>;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}

async function longestOf(rounds: number, work: (round: number) => Promise<unknown>): Promise<number> {
  let longest = 0;
  for (let round = 1; round <= rounds; round += 1)
    longest = Math.max(longest, await timed(() => work(round)));
  return longest;
}

/** Resolves when so many consecutive dry runs agree: each may reach a different replica. */
async function agreed(what: string, everyMs: number, dryRun: () => Promise<boolean>): Promise<void> {
  let inARow = 0;
  await eventually(
    what,
    async () => {
      inARow = (await dryRun()) ? inARow + 1 : 0;
      return inARow >= 12;
    },
    { timeoutMs: 60_000, everyMs },
  );
}

const LEADER_MS = 60_000;

/** Drops all traffic between the leader and the API server. Recovery: the time until another replica leads. */
const cutLeader: Fault = {
  name: 'network cut of the leader',
  run: async ({ replicas, isShort }) => {
    const leader = await eventually('a replica leads', replicas.leader, { timeoutMs: LEADER_MS });
    const from = performance.now();
    leader.link.freeze();
    await eventually(
      'another replica leads',
      async () => {
        const now = await replicas.leader();
        return now !== undefined && now.name !== leader.name;
      },
      { timeoutMs: LEADER_MS, everyMs: 50 },
    );
    const took = performance.now() - from;
    const cutMs = isShort ? 20_000 : 60_000;
    await sleep(Math.max(0, cutMs - took));
    leader.link.reset(); // both sides have given up the delayed requests long ago
    leader.link.repair();
    return took;
  },
};

const AWAY_MS = { short: 15_000, full: 5 * 60_000 };

/**
 * Kills all controllers and starts them again after five minutes. No admission may fail during this time, although a webhook
 * replica is replaced too. Recovery: the time until a controller leads again.
 */
const noControllers: Fault = {
  name: 'no controllers',
  run: async ({ isShort, replicas }) => {
    const killed = replicas.members().filter(({ slot }) => !answersReviews(slot));
    for (const one of killed) replicas.kill(one);
    const from = performance.now();
    await replicas.replace('a');
    await sleep(Math.max(0, from + (isShort ? AWAY_MS.short : AWAY_MS.full) - performance.now()));
    return await timed(async () => {
      await Promise.all(killed.map(({ slot }) => replicas.start(slot)));
      await eventually('a controller leads', replicas.leader, { timeoutMs: LEADER_MS, everyMs: 50 });
    });
  },
};

const CERTIFICATE_MS = 5_000;
const ROUNDS = { short: 3, full: 20 };

/**
 * Kills all webhook replicas and starts them again. Each new Service still gets its certificate, and each deleted certificate is
 * replaced. Recovery: the longest time until a certificate existed.
 */
const noWebhooks: Fault = {
  name: 'no webhook replicas',
  run: (scene) =>
    // The policies of the load fail closed.
    scene.withOutage(async () => {
      const { isShort, replicas } = scene;
      const killed = replicas.members().filter(({ slot }) => answersReviews(slot));
      for (const one of killed) replicas.kill(one);
      const rounds = isShort ? ROUNDS.short : ROUNDS.full;
      const longest = await longestOf(rounds, (round) => certify(scene, `without-webhooks-${round}`));
      await Promise.all(killed.map(({ slot }) => replicas.start(slot)));
      await untilReviewed(scene);
      return longest;
    }),
};

async function certify({ cluster, seeded }: Scene, name: string): Promise<void> {
  await askForCertificate(cluster, 'shop', name);
  const lost = { namespace: 'shop', name: `${seeded.pick(SERVICES)}-tls` };
  await cluster.admin.delete(secrets, lost);
  for (const ref of [{ namespace: 'shop', name: `${name}-tls` }, lost])
    await cluster.see(`the certificate ${ref.name}`, secrets, ref, undefined, CERTIFICATE_MS);
}

async function untilReviewed({ client }: Scene): Promise<void> {
  const path = `${resourcePath(MACHINES, { namespace: 'east' })}?dryRun=All`;
  const probe = machine('east', 'probe', { rack: 'rack-0' });
  await agreed('the API server reaches the webhook replicas', 50, async () => {
    const { code } = await client.ask({ method: 'POST', path, body: probe });
    return code === 201;
  });
}

/** In MiB. An eighth of it, but at least 40 MiB, is the budget for large request bodies. */
const HEAP = 128;
const NOTE_BYTES = 900_000;
const LANES = 4;

/** Replicas with little memory, and objects of almost 1 MiB. Recovery: until the last of their requests has ended. */
const memoryPressure: Fault = {
  name: 'memory pressure',
  run: async (scene) => {
    const { replicas, isShort } = scene;
    for (const slot of replicas.slots.filter(answersReviews))
      await replicas.replace(slot, { nodeArgs: [`--max-old-space-size=${HEAP}`] });
    const before = replicas.members().filter(({ slot }) => answersReviews(slot));
    const until = performance.now() + (isShort ? 6_000 : 60_000);
    const took = await timed(() =>
      Promise.all(Array.from({ length: LANES }, () => heavyUntil(scene, until))),
    );
    for (const { name, replica } of before)
      if (!replica.program.isRunning()) throw new Error(`${name} ran out of memory`);
    return Math.max(0, took - (isShort ? 6_000 : 60_000));
  },
};

async function heavyUntil({ traffic }: Scene, until: number): Promise<void> {
  while (performance.now() < until) {
    await traffic.heavy(NOTE_BYTES);
    await sleep(10);
  }
}

/** Recovery: the longest time from a policy change until every replica enforces it. */
const policyChanges: Fault = {
  name: 'policy changes',
  run: async (scene) => {
    let longest = 0;
    for (let round = 1; round <= (scene.isShort ? 3 : 20); round += 1) {
      const took = await timed(() => changeStamp(scene, `r${round}`, 9 + (round % 2)));
      longest = Math.max(longest, took);
      if (round % 3 === 0) await removeAndRestore(scene);
    }
    return longest;
  },
};

/** A different timeout also changes the webhook entries, while requests for the old entries are in flight. */
async function changeStamp({ cluster, stamps }: Scene, stamp: string, timeoutSeconds: number): Promise<void> {
  const end = stamps.begin(stamp);
  await cluster.apply(machinePolicy(stamp, timeoutSeconds));
  const probe = machine('east', 'probe', { rack: 'rack-0' });
  await agreed(`every replica sets ${stamp}`, 20, async () => {
    const seen = await cluster.admin.create(MACHINES, probe, { dryRun: true });
    return seen.metadata?.labels?.[STAMP] === stamp;
  });
  await seeInForce(cluster, 'machines');
  end();
}

async function removeAndRestore({ cluster }: Scene): Promise<void> {
  await cluster.admin.delete(ADMISSION_POLICIES, { name: 'racks' });
  await cluster.apply(rackPolicy);
  await seeInForce(cluster, 'racks');
}

/** Recovery: the longest time from the annotation until the old generation is gone. */
const caRotation: Fault = {
  name: 'CA rotation',
  run: async (scene) => {
    const rounds = scene.isShort ? 1 : 3;
    return await longestOf(rounds, (round) => rotateAuthority(scene.cluster, `chaos-${round}`));
  },
};

/**
 * In this order: `noWebhooks` replaces the replicas with little memory. It comes early, because claims of writes without an
 * answer last for a minute.
 */
export const ALL_FAULTS: readonly Fault[] = [
  memoryPressure,
  noWebhooks,
  cutLeader,
  noControllers,
  caRotation,
  policyChanges,
];

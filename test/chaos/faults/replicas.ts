/** Replicas that stop, crash, lose the network or have a wrong clock. */
import { setTimeout as sleep } from 'node:timers/promises';

import { eventually } from '../../support/processes.ts';
import { withSkewedClock } from '../../support/skewed-clock.ts';
import { answersReviews, type Member } from '../replicas.ts';
import type { Scene } from '../scene.ts';
import { timed, type Fault } from './fault.ts';

const LEADER_MS = 60_000;
const MINUTE = 60_000;

/** Recovery: the longest time from the signal to a replica until its successor is ready. */
export const rollingRestart: Fault = {
  name: 'rolling restart',
  run: async ({ isShort, replicas }) => {
    let longest = 0;
    for (let round = 0; round < (isShort ? 1 : 20); round += 1)
      for (const slot of replicas.slots)
        longest = Math.max(longest, await timed(() => replicas.replace(slot)));
    return longest;
  },
};

/** Recovery: until another replica leads. */
export const killLeader: Fault = {
  name: 'kill -9 of the leader',
  run: async (scene) => {
    const leader = await leaderOf(scene);
    const took = await timed(async () => {
      scene.replicas.kill(leader);
      await untilAnotherLeads(scene, leader);
    });
    await scene.replicas.start(leader.slot);
    return took;
  },
};

/** Recovery: the longest time from the kill until the successor is ready. */
export const killAny: Fault = {
  name: 'kill -9 of any replica',
  run: async ({ isShort, seeded, replicas }) => {
    let longest = 0;
    for (let round = 0; round < (isShort ? 1 : 5); round += 1) {
      const victim = seeded.pick(replicas.members());
      const took = await timed(async () => {
        replicas.kill(victim);
        await replicas.start(victim.slot);
      });
      longest = Math.max(longest, took);
    }
    return longest;
  },
};

/** Drops all traffic between the leader and the API server. Recovery: the time until another replica leads. */
export const cutLeader: Fault = {
  name: 'network cut of the leader',
  run: async (scene) => {
    const leader = await leaderOf(scene);
    const from = performance.now();
    leader.link.freeze();
    await untilAnotherLeads(scene, leader);
    const took = performance.now() - from;
    const cutMs = scene.isShort ? 20_000 : 60_000;
    await sleep(Math.max(0, cutMs - took));
    leader.link.reset(); // both sides have given up the delayed requests long ago
    leader.link.repair();
    return took;
  },
};

/** Recovery: the longest time until the replica with a wrong clock, or its successor with a correct clock, is ready. */
export const wrongClock: Fault = {
  name: 'clock of one replica ±10 min',
  run: async (scene) => {
    const { isShort, replicas } = scene;
    let longest = 0;
    for (const slot of replicas.slots.filter((one) => one === 'b' || one === 'd')) {
      for (const minutes of [10, -10]) {
        const special = withSkewedClock(minutes * MINUTE);
        longest = Math.max(longest, await timed(() => replicas.replace(slot, special)));
        if (!isShort && mayLead(scene, slot)) await haveItLead(scene, slot);
        await sleep(isShort ? 1_000 : 10_000);
      }
      longest = Math.max(longest, await timed(() => replicas.replace(slot)));
    }
    return longest;
  },
};

const mayLead = ({ arrangement }: Scene, slot: Member['slot']): boolean =>
  arrangement === 'single' || !answersReviews(slot);

/** Restarts each other leader until the replica in this slot leads. */
async function haveItLead(scene: Scene, slot: Member['slot']): Promise<void> {
  for (let leader = await leaderOf(scene); leader.slot !== slot; leader = await leaderOf(scene))
    await scene.replicas.replace(leader.slot);
}

async function leaderOf({ replicas }: Scene): Promise<Member> {
  return await eventually('a replica leads', replicas.leader, { timeoutMs: LEADER_MS });
}

async function untilAnotherLeads({ replicas }: Scene, before: Member): Promise<Member> {
  return await eventually(
    'another replica leads',
    async () => {
      const leader = await replicas.leader();
      return leader === undefined || leader.name === before.name ? undefined : leader;
    },
    { timeoutMs: LEADER_MS, everyMs: 50 },
  );
}

/**
 * Replicas with little memory, and objects of almost 1 MiB. Recovery: the time until the last of their requests has
 * ended.
 */
import { setTimeout as sleep } from 'node:timers/promises';

import { answersReviews } from '../replicas.ts';
import type { Scene } from '../scene.ts';
import { timed, type Fault } from './fault.ts';

/** In MiB. An eighth of it, but at least 40 MiB, is the budget for large request bodies. */
const HEAP = 128;
const NOTE_BYTES = 900_000;
const LANES = 4;

export const memoryPressure: Fault = {
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

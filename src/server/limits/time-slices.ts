/** Splits long work into slices, so that the event loop can serve other work in between. */
import type { Breathe } from '../../admission/conversion/review-text.ts';
import type { Turns } from '../../admission/policy/world.ts';
import { createTurnQueue } from './turns.ts';

/**
 * All work that calls the same function shares one slice of `sliceMs` per turn of the event loop, first come, first served.
 * With a slice each, a turn would take as long as all slices together.
 * @param now in milliseconds
 * @param queue of this work alone
 */
export function createTimeSlices(
  sliceMs: number,
  now = () => performance.now(),
  queue = createTurnQueue(),
): Breathe {
  let sliceStart = -Infinity;
  return () => {
    if (queue.isEmpty() && now() - sliceStart < sliceMs) return undefined;
    return queue.wait().then(() => {
      sliceStart = now();
    });
  };
}

/** All audits and sweeps of the process share these turns. 10 ms delay other work no longer than a garbage collection. */
export const backgroundTurns: Turns = { next: createTimeSlices(10), charge: () => undefined };

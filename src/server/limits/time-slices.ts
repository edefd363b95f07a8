/** Work that would keep the event loop for long, cut into slices: one slice, then everybody else's turn. */
import type { Breathe } from '../../admission/conversion/review-text.ts';

export interface TimeSlicesDeps {
  /** In milliseconds. */
  readonly now?: () => number;
  /** Calls back in the next turn of the event loop. */
  readonly nextTurn?: (callback: () => void) => void;
}

/**
 * All work that breathes by the same function shares one slice of `sliceMs` in a turn of the event loop, in the order in which it
 * comes: were each to take a slice of its own, a turn would be as long as all of them together.
 */
export function createTimeSlices(
  sliceMs: number,
  {
    now = () => performance.now(),
    nextTurn = (callback) => void setImmediate(callback),
  }: TimeSlicesDeps = {},
): Breathe {
  const waiting: (() => void)[] = [];
  let sliceStart = -Infinity;
  const startNext = () => {
    sliceStart = now();
    waiting.shift()?.();
    if (waiting.length > 0) nextTurn(startNext);
  };
  return () => {
    if (waiting.length === 0 && now() - sliceStart < sliceMs) return undefined;
    const { promise, resolve } = Promise.withResolvers<undefined>();
    waiting.push(() => {
      resolve(undefined);
    });
    if (waiting.length === 1) nextTurn(startNext);
    return promise;
  };
}

/** Splits long work into slices, so that the event loop can serve other work in between. */
import type { Breathe } from '../../admission/conversion/review-text.ts';

/**
 * All work that calls the same function shares one slice of `sliceMs` per turn of the event loop, first come, first served.
 * With a slice each, a turn would take as long as all slices together.
 * @param now in milliseconds
 * @param nextTurn calls back in the next turn of the event loop
 */
export function createTimeSlices(
  sliceMs: number,
  now = () => performance.now(),
  nextTurn: (callback: () => void) => void = setImmediate,
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

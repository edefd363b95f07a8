import { setTimeout as sleep } from 'node:timers/promises';

/** Limits the rate of calls to `perSecond`. */
export function createPace(perSecond: number): (signal: AbortSignal) => Promise<void> {
  let free = 0;
  return async (signal) => {
    const now = performance.now();
    const turn = Math.max(now, free);
    free = turn + 1_000 / perSecond;
    if (turn > now) await sleep(turn - now, undefined, { signal });
  };
}

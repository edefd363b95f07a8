import { systemClock, type Clock } from './clock.ts';

/** The time of the API server, told by the Date header of its answers. */
export interface ServerClock {
  /** Takes the header Date of an answer that is just beginning. */
  readonly observe: (date: string) => void;
  /** By how much our clock is ahead of the API server's, in milliseconds; undefined before the first answer. */
  readonly skewMs: () => number | undefined;
  /** The time that every replica agrees on, whatever its own clock says; our own before the first answer. */
  readonly now: () => Date;
}

/** The header has whole seconds, and the answer was on its way: a smaller difference is none. */
const RESOLUTION_MS = 2_000;

export function createServerClock(clock: Pick<Clock, 'now' | 'monotonic'> = systemClock): ServerClock {
  let seen: { readonly at: number; readonly server: number } | undefined;
  // Since the last answer time is counted monotonically: a step of our own clock must not reach those who ask.
  const server = (): number | undefined =>
    seen === undefined ? undefined : seen.server + clock.monotonic() - seen.at;
  const skewMs = () => {
    const time = server();
    return time === undefined ? undefined : clock.now() - time;
  };
  return {
    observe: (date) => {
      const time = Date.parse(date);
      if (!Number.isNaN(time)) seen = { at: clock.monotonic(), server: time + 500 };
    },
    skewMs,
    now: () => {
      const skew = skewMs() ?? 0;
      return new Date(Math.abs(skew) < RESOLUTION_MS ? clock.now() : clock.now() - skew);
    },
  };
}

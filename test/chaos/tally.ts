/** The results of the requests during one fault, and during the whole run. */
import type { Judged } from './oracle.ts';

export interface Trouble {
  readonly what: string;
  readonly why: string;
  /** Milliseconds of `performance.now()`. */
  readonly from: number;
  readonly to: number;
}

export interface Counts {
  readonly requests: number;
  readonly failed: readonly Trouble[];
  /** The number of failed requests whose webhook call timed out, as on an overloaded machine. */
  readonly timedOut: number;
  /** Without a verdict while the test had stopped all webhook replicas. */
  readonly notAsked: readonly Trouble[];
  readonly wrong: readonly Trouble[];
}

export interface Outage {
  readonly from: number;
  to: number | undefined;
}

export interface Tally {
  readonly record: (what: string, judged: Judged, from: number, to: number) => void;
  readonly wrongStored: (what: string, why: string) => void;
  readonly take: (outages: readonly Outage[]) => Counts;
}

const TIMED_OUT = /context deadline exceeded|Client\.Timeout exceeded/;

export function createTally(): Tally {
  let requests = 0;
  let undecided: Trouble[] = [];
  let wrong: Trouble[] = [];
  return {
    record: (what, judged, from, to) => {
      requests += 1;
      if (judged.kind !== 'right')
        (judged.kind === 'wrong' ? wrong : undecided).push({ what, why: judged.why, from, to });
    },
    wrongStored: (what, why) => {
      const now = performance.now();
      wrong.push({ what, why, from: now, to: now });
    },
    take: (outages) => {
      const { true: notAsked = [], false: failed = [] } = Object.groupBy(undecided, (one) =>
        String(outages.some(({ from, to = Infinity }) => one.from <= to && one.to >= from)),
      );
      const timedOut = failed.filter(({ why }) => TIMED_OUT.test(why)).length;
      const counts = { requests, failed, timedOut, notAsked, wrong };
      requests = 0;
      [undecided, wrong] = [[], []];
      return counts;
    },
  };
}

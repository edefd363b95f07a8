/** The results of the requests during one fault, and during the whole run. */
import type { Break } from './front.ts';
import type { Judged } from './oracle.ts';

/** A request with an unexpected result. */
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
  /** Requests in flight on a connection to a killed replica. The front has recorded one broken connection for each. */
  readonly cutOff: readonly Trouble[];
  readonly notAsked: readonly Trouble[];
  readonly wrong: readonly Trouble[];
}

export interface Outage {
  readonly from: number;
  /** Undefined while the outage lasts. */
  to: number | undefined;
}

export interface Tally {
  readonly record: (what: string, judged: Judged, from: number, to: number) => void;
  /** Records a stored object with a wrong state. */
  readonly wrongStored: (what: string, why: string) => void;
  /** Returns the results since the last call. */
  readonly take: (facts: Facts) => Counts;
}

export interface Facts {
  /** The periods in which the test stopped etcd or the API server. */
  readonly outages: readonly Outage[];
  readonly breaks: readonly Break[];
  /** When the test killed replicas. Only connections that broke right after a kill are excused. */
  readonly kills: readonly number[];
}

/** How long after a SIGKILL its connections may break, in milliseconds. */
const KILL_MS = 1_000;
const TIMED_OUT = /context deadline exceeded|Client\.Timeout exceeded/;
const BROKEN = /EOF|connection reset|broken pipe|use of closed network connection/;

export function createTally(): Tally {
  let requests = 0;
  let undecided: Trouble[] = [];
  let notAsked: Trouble[] = [];
  let wrong: Trouble[] = [];
  const excused = new Set<Break>();
  return {
    record: (what, judged, from, to) => {
      requests += 1;
      if (judged.kind === 'right') return;
      const trouble = { what, why: judged.why, from, to };
      if (judged.kind === 'wrong') wrong.push(trouble);
      else if (judged.kind === 'undecided') undecided.push(trouble);
      else notAsked.push(trouble);
    },
    wrongStored: (what, why) => {
      const now = performance.now();
      wrong.push({ what, why, from: now, to: now });
    },
    take: ({ outages, breaks, kills }) => {
      const duringOutage = (one: Trouble) =>
        outages.some(({ from, to = Infinity }) => one.from <= to && one.to >= from);
      const lethal = breaks.filter(({ at }) => kills.some((kill) => at >= kill && at - kill < KILL_MS));
      const failed: Trouble[] = [];
      const cutOff: Trouble[] = [];
      const lost: Trouble[] = [];
      for (const one of undecided) {
        const met = BROKEN.test(one.why) ? breakFor(one, lethal, excused) : undefined;
        if (met !== undefined) {
          excused.add(met);
          cutOff.push(one);
        } else if (duringOutage(one)) lost.push(one);
        else failed.push(one);
      }
      for (const one of notAsked) (duringOutage(one) ? lost : failed).push(one);
      const timedOut = failed.filter(({ why }) => TIMED_OUT.test(why)).length;
      const counts = { requests, failed, timedOut, cutOff, notAsked: lost, wrong };
      requests = 0;
      [undecided, notAsked, wrong] = [[], [], []];
      return counts;
    },
  };
}

/**
 * Finds a connection that broke with an unanswered request during this request. Each connection excuses one request.
 */
function breakFor(one: Trouble, breaks: readonly Break[], used: ReadonlySet<Break>): Break | undefined {
  return breaks.find(
    (candidate) =>
      !used.has(candidate) &&
      candidate.unanswered() &&
      candidate.at >= one.from &&
      candidate.at <= one.to + 1,
  );
}

/** One sweep for all windows that wait for one: tools that restore every few minutes must not have the cluster read all the time. */
import { isDeepStrictEqual } from 'node:util';
import type { SweepResult } from '../../restore/report.ts';
import type { OnSweepProgress, Sweep, SweepOptions } from './sweep.ts';
import type { Tracing } from '../../tracing/tracing.ts';

export type SharedSweep = (
  options: SweepOptions,
  /** A sweep that began earlier tells nothing. */
  notBefore: Date,
  signal: AbortSignal,
  onProgress?: OnSweepProgress,
) => Promise<
  { readonly kind: 'swept'; readonly result: SweepResult } | { readonly kind: 'later'; readonly at: Date }
>;

/** Between two sweeps there are at least so many times the time that the first one took. */
const REST = 4;
/** However short or long a sweep took, in milliseconds. */
const SHORTEST_REST_MS = 1_000;
const LONGEST_REST_MS = 5 * 60_000;

export function createSharedSweep(sweep: Sweep, now: () => Date): SharedSweep {
  let last: { readonly options: SweepOptions; readonly result: SweepResult } | undefined;
  let earliest: Date | undefined;
  return async (wanted, notBefore, signal, onProgress) => {
    // As far back as any window asks for: otherwise each of those that are looked at again and again would need its own.
    earliest = earliest === undefined || wanted.since < earliest ? wanted.since : earliest;
    const options = { ...wanted, since: earliest };
    if (last !== undefined) {
      const { result } = last;
      if (result.startedAt >= notBefore && covers(last.options, options))
        return { kind: 'swept', result: { ...result, interim: options.interim } };
      const took = result.finishedAt.getTime() - result.startedAt.getTime();
      const rest = Math.max(SHORTEST_REST_MS, Math.min(LONGEST_REST_MS, REST * took));
      const at = new Date(result.finishedAt.getTime() + rest);
      if (now() < at) return { kind: 'later', at };
    }
    const result = await sweep(options, signal, onProgress);
    last = { options, result };
    return { kind: 'swept', result };
  };
}

/** Whether what was looked at for one window is all that the other one asks for. */
function covers(done: SweepOptions, wanted: SweepOptions): boolean {
  return (
    (!done.interim || wanted.interim) && // an interim sweep looks once only
    done.since <= wanted.since &&
    isDeepStrictEqual(done.namespaceMapping, wanted.namespaceMapping)
  );
}

/** The same sweep, in a span of its own where there are traces. */
export function traceSweeps(tracing: Tracing | undefined, sweep: Sweep): Sweep {
  if (tracing === undefined) return sweep;
  return (options, ...rest) =>
    tracing.work('sweep', { 'gatehouse.interim': options.interim }, async () => {
      const result = await sweep(options, ...rest);
      const { objectsScanned, violations, unreadable } = result;
      tracing.note({
        'gatehouse.objects': objectsScanned,
        'gatehouse.violations': violations.length,
        'gatehouse.unreadable': unreadable.length,
      });
      return result;
    });
}

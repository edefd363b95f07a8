/** One sweep for all windows that wait, with pauses between sweeps. */
import { isDeepStrictEqual } from 'node:util';
import type { Tracing } from '../../tracing/tracing.ts';
import type { SweepOptions, OnSweepProgress, ClusterSweep, Sweep } from './sweep.ts';

/** The pause after a sweep, as a multiple of its duration. */
const REST = 4;
const SHORTEST_REST_MS = 1_000;
const LONGEST_REST_MS = 5 * 60_000;

/** Frequent restores must not cause continuous reads. A sweep that began before `notBefore` does not count. */
export function createSharedSweep(sweep: Sweep, now: () => Date) {
  let last: { readonly options: SweepOptions; readonly result: ClusterSweep } | undefined;
  return async (
    options: SweepOptions,
    notBefore: Date,
    signal: AbortSignal,
    onProgress?: OnSweepProgress,
  ) => {
    if (last !== undefined) {
      const { result } = last;
      if (result.startedAt >= notBefore && covers(last.options, options))
        return { kind: 'swept', result: { ...result, interim: options.interim } } as const;
      const took = result.finishedAt.getTime() - result.startedAt.getTime();
      const rest = Math.max(SHORTEST_REST_MS, Math.min(LONGEST_REST_MS, REST * took));
      const at = new Date(result.finishedAt.getTime() + rest);
      if (now() < at) return { kind: 'later', at } as const;
    }
    const result = await sweep(options, signal, onProgress);
    last = { options, result };
    return { kind: 'swept', result } as const;
  };
}

function covers(done: SweepOptions, wanted: SweepOptions): boolean {
  return (
    (!done.interim || wanted.interim) && // an interim sweep does not confirm after a pause
    done.since <= wanted.since &&
    isDeepStrictEqual(done.namespaceMapping, wanted.namespaceMapping)
  );
}

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

/** Formats the measurements as a table with their limits. Pure functions. */
import { atLeast, atMost, percentile, type Figure } from '../../scripts/bench/figures.ts';
import { mebibytes, whole } from '../../scripts/bench/table.ts';
import type { ColdStart } from './cold-start.ts';
import type { FailOvers } from './fail-over.ts';
import type { Sample, Steady, SteadyOptions } from './steady.ts';
import type { Storm } from './storm.ts';

/** The maximum number of requests of a replica in any second after the API server is back. */
const STORM_REQUESTS = 50;
const COLD_START_MS = 10_000;
/** The lease lasts 12 s, and the other replicas read it every second. */
const KILLED_MS = 15_000;
const ENDED_MS = 2_000;
const HEAP_GROWTH = 0.05;
/** The share of the duration after which memory should be stable: minute 5 of 20. */
const SETTLED = 0.25;
const LAST = 0.75;
/** Allows for pooled connections that are closed when idle and opened again. */
const SLACK = 3;
const RATE = 0.98;

const seconds = (milliseconds: number): string => `${(milliseconds / 1_000).toFixed(1)} s`;
const median = (values: readonly number[]): number => percentile(values, 0.5);

const limited = (what: string, value: number, most: number, show: (value: number) => string): Figure => ({
  what,
  measured: show(value),
  target: atMost(value, most, show),
});

export function stormFigures(storms: readonly Storm[]): readonly Figure[] {
  return storms.flatMap(({ replica, watches, firstSecond, worstSecond, requests, recoveredMs }) => [
    {
      what: `reconnect storm: requests of ${replica} (${watches} watches) in the first second`,
      measured: String(firstSecond),
      target: atMost(firstSecond, STORM_REQUESTS, String),
    },
    limited('  in the worst second until every watch was open again', worstSecond, STORM_REQUESTS, String),
    { what: '  every watch was open again after', measured: `${seconds(recoveredMs)}, ${requests} requests` },
  ]);
}

export function coldStartFigures(starts: readonly ColdStart[], described: string): readonly Figure[] {
  const ready = median(starts.map(({ readyMs }) => readyMs));
  const list = (values: readonly number[]) => values.map(seconds).join(', ');
  return [
    limited(
      `cold start to ready with ${described}, median of ${starts.length}`,
      ready,
      COLD_START_MS,
      seconds,
    ),
    { what: '  each', measured: list(starts.map(({ readyMs }) => readyMs)) },
    { what: '  of them on a processor', measured: list(starts.map(({ cpuMs }) => cpuMs)) },
    { what: '  memory (RSS) then', measured: mebibytes(Math.max(...starts.map(({ resident }) => resident))) },
  ];
}

export function failOverFigures({ killed, ended }: FailOvers): readonly Figure[] {
  const line = (what: string, took: readonly number[], limit: number): Figure => ({
    what: `${what}, the longest of ${took.length}`,
    measured: `${seconds(Math.max(...took))} (median ${seconds(median(took))})`,
    target: atMost(Math.max(...took), limit, seconds),
  });
  return [
    line('leader fail-over after kill -9', killed, KILLED_MS),
    line('leader fail-over after SIGTERM', ended, ENDED_MS),
  ];
}

export function steadyFigures(
  { samples, reviews, changes, answered }: Steady,
  { minutes, reviewsPerSecond, changesPerSecond }: SteadyOptions,
): readonly Figure[] {
  const settled = samples.filter(({ minute }) => minute >= minutes * SETTLED - 0.01);
  const early = samples.filter(({ minute }) => minute < minutes * SETTLED + 0.5);
  const late = samples.filter(({ minute }) => minute >= minutes * LAST);
  const [base, last] = [settled[0]?.heap ?? 0, settled.at(-1)?.heap ?? 0];
  const growth = last / base - 1;
  const rate = ({ sent, seconds: took }: { readonly sent: number; readonly seconds: number }) => sent / took;
  const constant = (what: string, of: (sample: Sample) => number): Figure => {
    const more = median(late.map(of)) - median(early.map(of));
    return {
      what: `${what} at the end, compared to ${median(early.map(of))} at the beginning`,
      measured: String(median(late.map(of))),
      target: atMost(more, SLACK, (value) => `${median(early.map(of)) + value}`),
    };
  };
  const failures = reviews.failures.length + changes.failures.length;
  return [
    {
      what: 'reviews a second',
      measured: whole(rate(reviews)),
      target: atLeast(rate(reviews), reviewsPerSecond * RATE, whole),
    },
    {
      what: 'changes of objects a second',
      measured: rate(changes).toFixed(1),
      target: atLeast(rate(changes), changesPerSecond * RATE, whole),
    },
    limited('failed or wrong', failures, 0, String),
    {
      what: `heap after GC, minute ${settled[0]?.minute.toFixed(0) ?? '?'} to ${settled.at(-1)?.minute.toFixed(0) ?? '?'}: ${mebibytes(base)} to ${mebibytes(last)}`,
      measured: percent(growth),
      target: atMost(growth, HEAP_GROWTH, percent),
    },
    constant('file descriptors', ({ fileDescriptors }) => fileDescriptors),
    constant('timers', ({ timers }) => timers),
    {
      what: 'reviews by sort',
      measured: Object.entries(answered)
        .map(([sort, count]) => `${count} ${sort}`)
        .join(', '),
    },
  ];
}

export const sampleRows = (samples: readonly Sample[]): readonly (readonly string[])[] => [
  ['minute', 'heap after GC', 'buffers', 'RSS', 'file descriptors', 'timers', 'UniqueClaims'],
  ...samples.map(({ minute, heap, buffers, resident, fileDescriptors, timers, claims }) => [
    minute.toFixed(1),
    mebibytes(heap),
    mebibytes(buffers),
    mebibytes(resident),
    String(fileDescriptors),
    String(timers),
    String(claims),
  ]),
];

const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;

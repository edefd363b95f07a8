import type { Scenario, Turn } from './admission-turns.ts';
import { atLeast, atMost, percentile, type Figure } from './figures.ts';
import { mebibytes, printTable, whole } from './table.ts';

/** A round has one turn of each server under comparison. The first server is the baseline. */
export type Rounds = readonly (readonly Turn[])[];

const FLOOR = 0;
const OTHER = 1;
const LEAST_SHARE = 0.8;
const MOST_P99 = 1.5;
/** The maximum loss of throughput with 1,000 policies and 100,000 objects. */
const MOST_LOSS = 0.05;

const median = (rounds: Rounds, valueOf: (turns: readonly Turn[]) => number): number =>
  percentile(rounds.map(valueOf), 0.5);

const of =
  (server: number, key: keyof Turn) =>
  (turns: readonly Turn[]): number =>
    turns[server]?.[key] ?? NaN;

/** The value of the second server divided by the value of the first server. */
const relation =
  (key: keyof Turn) =>
  (turns: readonly Turn[]): number =>
    of(OTHER, key)(turns) / of(FLOOR, key)(turns);

/** For `--only`. */
export const nameOf = ({ webhook, connections, size }: Scenario): string =>
  `${webhook} ${size} ${connections}`;

const describe = ({ webhook, connections, size }: Scenario): string =>
  `${webhook}, ${size}, ${connections} connection${connections === 1 ? '' : 's'}`;

const ratio = (value: number): string => value.toFixed(2);
const milliseconds = (value: number): string => value.toFixed(2);
const microseconds = (value: number): string => whole(value * 1_000);

/** Prints all measurements. The figures contain only those with a target. */
export function printComparison(scenario: Scenario, rounds: Rounds): void {
  const row = (what: string, key: keyof Turn, print: (value: number) => string) => [
    what,
    print(median(rounds, of(FLOOR, key))),
    print(median(rounds, of(OTHER, key))),
    ratio(median(rounds, relation(key))),
  ];
  printTable([
    [describe(scenario), 'bare fastify', 'Gatehouse', 'ratio'],
    row('  requests a second', 'requests', whole),
    row('  p50, ms', 'p50', milliseconds),
    row('  p99, ms', 'p99', milliseconds),
    row('  CPU a request, µs', 'cpu', microseconds),
    row('  memory (RSS)', 'rss', mebibytes),
    row('  core of the client in use', 'clientShare', ratio),
  ]);
}

export function speedFigures(scenario: Scenario, rounds: Rounds): readonly Figure[] {
  const share = median(rounds, relation('requests'));
  const p99 = median(rounds, relation('p99'));
  const what = describe(scenario);
  return [
    {
      what: `${what}: throughput in relation to bare fastify`,
      measured: ratio(share),
      ...(scenario.connections > 1 ? { target: atLeast(share, LEAST_SHARE, ratio) } : {}),
    },
    { what: '  p99', measured: ratio(p99), target: atMost(p99, MOST_P99, ratio) },
  ];
}

export function contentFigures(contents: string, scenario: Scenario, rounds: Rounds): readonly Figure[] {
  const share = median(rounds, relation('requests'));
  return [
    {
      what: `${describe(scenario)}, ${contents}: throughput in relation to few`,
      measured: ratio(share),
      target: atLeast(share, 1 - MOST_LOSS, ratio),
    },
  ];
}

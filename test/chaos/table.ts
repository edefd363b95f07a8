/** Prints the results of a run of the chaos suite. */
import { printTable, whole } from '../../scripts/bench/table.ts';
import { CONVERGED_WITHIN_MS } from './convergence.ts';
import type { Outcome, Row } from './run.ts';
import type { Trouble } from './tally.ts';

const HEAD = [
  'fault',
  'seconds',
  'requests',
  'a second',
  'failed',
  'timed out',
  'cut off',
  'not asked',
  'wrong',
  'recovery',
];

const secondsOf = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;

const recoveryOf = ({ recoveryMs, error }: Row): string => {
  if (recoveryMs !== undefined) return secondsOf(recoveryMs);
  return error === undefined ? '' : 'NEVER';
};

const countsOf = ({ failed, timedOut, cutOff, notAsked, wrong }: Row): readonly number[] => [
  failed.length,
  timedOut,
  cutOff.length,
  notAsked.length,
  wrong.length,
];

const cells = (row: Row): readonly string[] => [
  row.name,
  row.seconds.toFixed(1),
  whole(row.requests),
  whole(row.requests / row.seconds),
  ...countsOf(row).map(whole),
  recoveryOf(row),
];

export function printOutcome({ rows, stored, convergence, leaders }: Outcome, seed: number): void {
  const under = rows.slice(0, -1); // the load ends before the last row
  const seconds = under.reduce((sum, row) => sum + row.seconds, 0);
  const sum = (of: (row: Row) => number) => rows.reduce((total, row) => total + of(row), 0);
  const requests = sum((row) => row.requests);
  printTable([
    HEAD,
    ...rows.map(cells),
    [
      'all',
      seconds.toFixed(1),
      whole(requests),
      whole(requests / seconds),
      ...[0, 1, 2, 3, 4].map((column) => whole(sum((row) => countsOf(row)[column] ?? 0))),
      '',
    ],
  ]);
  console.log(
    `\ntimed out: failed requests that Gatehouse did not answer within the webhook's timeout of 10 s; cut off: in flight on a connection to a replica at its kill -9; not asked: while the API server or etcd was down`,
  );
  console.log(
    leaders.problems.length === 0
      ? `one leader's writes at a time: holds (${whole(leaders.writes)} writes in ${leaders.terms} terms)`
      : `one leader's writes at a time: FAILED (${leaders.problems.length} of ${whole(leaders.writes)} writes)`,
  );
  console.log(
    convergence.problems.length === 0
      ? `converged after the last fault: holds (${secondsOf(convergence.ms)} of ${secondsOf(CONVERGED_WITHIN_MS)}; ${whole(stored)} objects read again)`
      : `converged after the last fault: FAILED (${convergence.problems.join('; ')})`,
  );
  console.log(`seed ${seed}`);
}

const SHOWN = 5;

/** Prints the first problem of each type in a row. */
export function printTroubles(row: Row): void {
  show(row, 'failed', row.failed);
  show(row, 'wrong', row.wrong);
  if (row.error !== undefined) console.error(`${row.name}:`, row.error);
}

function show({ name }: Row, kind: string, troubles: readonly Trouble[]): void {
  for (const { what, why, from, to } of troubles.slice(0, SHOWN))
    console.error(`${name}: ${kind} after ${Math.round(to - from)} ms: ${what}\n    ${why.slice(0, 1_000)}`);
  if (troubles.length > SHOWN) console.error(`${name}: ${troubles.length - SHOWN} more ${kind}`);
}

/** Prints the results of a run of the chaos suite. */
import { printTable, whole } from '../../scripts/bench/table.ts';
import { CONVERGED_WITHIN_MS } from './convergence.ts';
import type { Outcome, Row } from './run.ts';

const COUNTS: Readonly<Record<string, (row: Row) => number>> = {
  failed: ({ failed }) => failed.length,
  'timed out': ({ timedOut }) => timedOut,
  'not asked': ({ notAsked }) => notAsked.length,
  wrong: ({ wrong }) => wrong.length,
};

const secondsOf = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;

const recoveryOf = ({ recoveryMs, error }: Row): string => {
  if (recoveryMs !== undefined) return secondsOf(recoveryMs);
  return error === undefined ? '' : 'NEVER';
};

export function printOutcome({ rows, stored, convergence, leaders }: Outcome, seed: number): void {
  printTable([
    ['fault', 'seconds', 'requests', 'a second', ...Object.keys(COUNTS), 'recovery'],
    ...rows.map((row) => [
      row.name,
      row.seconds.toFixed(1),
      whole(row.requests),
      whole(row.requests / row.seconds),
      ...Object.values(COUNTS).map((count) => whole(count(row))),
      recoveryOf(row),
    ]),
  ]);
  console.log(`\nwrites of leaders: ${whole(leaders.writes)} in ${leaders.terms} terms`);
  console.log(
    `converged after ${secondsOf(convergence.ms)} of ${secondsOf(CONVERGED_WITHIN_MS)}; ${whole(stored)} objects read again`,
  );
  console.log(`seed ${seed}`);
}

const SHOWN = 5;

export function printTroubles({ name, failed, wrong, error }: Row): void {
  for (const [kind, troubles] of Object.entries({ failed, wrong }))
    for (const { what, why, from, to } of troubles.slice(0, SHOWN))
      console.error(
        `${name}: ${kind} after ${Math.round(to - from)} ms: ${what}\n    ${why.slice(0, 1_000)}`,
      );
  if (error !== undefined) console.error(`${name}:`, error);
}

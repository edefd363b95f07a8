import { cpus, loadavg } from 'node:os';

import { printTable } from './table.ts';

export interface Target {
  readonly wanted: string;
  readonly met: boolean;
}

export interface Figure {
  readonly what: string;
  readonly measured: string;
  readonly target?: Target;
}

export function printFigures(figures: readonly Figure[]): void {
  printTable([
    ['', 'measured', 'target', ''],
    ...figures.map(({ what, measured, target }) => [
      what,
      measured,
      target?.wanted ?? '',
      target === undefined ? '' : target.met ? 'met' : 'MISSED',
    ]),
  ]);
}

export const atLeast = (value: number, limit: number, print: (value: number) => string): Target => ({
  wanted: `at least ${print(limit)}`,
  met: value >= limit,
});

export const atMost = (value: number, limit: number, print: (value: number) => string): Target => ({
  wanted: `at most ${print(limit)}`,
  met: value <= limit,
});

/** The percentile of `values` at `share` (0 to 1), by the nearest-rank method. @throws Error for an empty list */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const value = sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
  if (value === undefined) throw new Error('nothing was measured');
  return value;
}

export async function runBenchmark(
  isCheck: boolean,
  measure: () => Promise<readonly Figure[]>,
): Promise<void> {
  const load = () => loadavg()[0]?.toFixed(1) ?? '';
  const before = load();
  const figures = await measure();
  printFigures(figures);
  console.log(
    `${cpus().length} cores (${cpus()[0]?.model ?? ''}), Node ${process.version}; ` +
      `load ${before} before the benchmark, ${load()} at its end, including the benchmark itself`,
  );
  const missed = figures.filter(({ target }) => target?.met === false);
  if (!isCheck || missed.length === 0) return;
  for (const { what, measured, target } of missed)
    console.error(`${what.trim()}: ${measured} instead of ${target?.wanted ?? ''}`);
  process.exitCode = 1;
}

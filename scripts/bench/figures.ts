import { printTable } from './table.ts';

export interface Target {
  readonly wanted: string;
  readonly met: boolean;
}

/** One line of a report. */
export interface Figure {
  readonly what: string;
  readonly measured: string;
  /** Undefined: the figure is only informative. */
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

/** The parts of a dashboard row, and helpers for its queries. */

export interface Panel {
  readonly title: string;
  readonly unit: 'reqps' | 'ops' | 's' | 'short' | 'bytes';
  readonly description: string;
  /** By legend. */
  readonly queries: Readonly<Record<string, string>>;
}

export const panel = (
  title: string,
  unit: Panel['unit'],
  description: string,
  queries: Panel['queries'],
): Panel => ({ title, unit, description, queries });

export interface Row {
  readonly title: string;
  readonly panels: readonly Panel[];
}

/** `name{job=~"$job", …}` */
export const of = (name: string, ...selectors: readonly string[]): string =>
  `${name}{${['job=~"$job"', ...selectors].join(', ')}}`;

export const rate = (by: string, name: string, ...selectors: readonly string[]): string =>
  `sum by (${by}) (rate(${of(name, ...selectors)}[$__rate_interval]))`;

export const increase = (by: string, name: string): string =>
  `sum by (${by}) (increase(${of(name)}[$__rate_interval]))`;

export const p99 = (by: string, histogram: string): string =>
  `histogram_quantile(0.99, ${rate(`le, ${by}`, `${histogram}_bucket`)})`;

export const highest = (by: string, name: string, ...selectors: readonly string[]): string =>
  `max by (${by}) (${of(name, ...selectors)})`;

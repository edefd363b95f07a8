/** The metrics that a controller of a user declares. */
export interface OwnMetricDefinition {
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly labels?: readonly string[];
  /** Upper bounds of a histogram, ascending. Default: those of client_golang. */
  readonly buckets?: readonly number[];
}

/** A checked call of an own metric. */
export interface MetricWrite {
  readonly name: string;
  readonly verb: 'add' | 'set' | 'observe' | 'remove';
  readonly value: number;
  /** All of the definition. */
  readonly labels: Readonly<Record<string, string>>;
}

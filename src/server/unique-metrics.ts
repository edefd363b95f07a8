/** Metrics of unique values. */
import { Gauge, type Registry } from 'prom-client';

export interface UniqueMetrics {
  /** Asked at each scrape for the values that several objects hold, by policy; undefined: this replica no longer leads. */
  readonly sharedValues: (counts: (() => ReadonlyMap<string, number>) | undefined) => void;
}

/** Absent on replicas that do not lead: who does not look must not say that all is well. */
export function createUniqueMetrics(registers: Registry[]): UniqueMetrics {
  let current: (() => ReadonlyMap<string, number>) | undefined;
  new Gauge({
    name: 'gatehouse_shared_unique_values',
    help: 'Values that are to be unique and that several objects hold all the same, by policy.',
    labelNames: ['policy'],
    registers,
    collect() {
      this.reset();
      for (const [policy, count] of current?.() ?? []) this.set({ policy }, count);
    },
  });
  return {
    sharedValues: (counts) => {
      current = counts;
    },
  };
}

import { Counter, Gauge, Histogram, Registry, type OpenMetricsContentType } from 'prom-client';

import type { MetricDefinition } from './catalog.ts';

export type ExemplarLabels = () => Readonly<Record<string, string>> | undefined;
type HistogramDefinition<L extends string> = MetricDefinition<'histogram', L> & {
  readonly buckets: number[];
};
export type Sample<L extends string> = readonly [labels: Partial<Record<L, string>>, value: number];

export type Instruments = ReturnType<typeof createInstruments>;

export function createInstruments(registry: Registry) {
  const registers = [registry];
  const counter = <L extends string>(definition: MetricDefinition<'counter', L>) =>
    new Counter({ ...definition, registers });
  const histogram = <L extends string>(
    definition: HistogramDefinition<L>,
    collect?: (this: Histogram<L>) => void,
  ) => new Histogram({ ...definition, registers, ...(collect && { collect }) });
  const observe = <Labels extends Readonly<Record<string, string>>>(
    definition: HistogramDefinition<keyof Labels & string>,
  ) => {
    const observed = histogram(definition);
    return (labels: Labels, value: number): void => observed.observe(labels, value);
  };
  return {
    counter,
    histogram,
    observe,
    gauge: <L extends string>(definition: MetricDefinition<'gauge', L>) =>
      new Gauge({ ...definition, registers }),
    /** @param known start at 0: Prometheus sees the first increase only in a series that exists already */
    count: <Labels extends readonly (string | number)[]>(
      definition: MetricDefinition<'counter', string> & {
        readonly labelNames: { readonly [Index in keyof Labels]: string };
      },
      known: readonly Labels[] = [],
    ) => {
      const counted = counter(definition);
      const names: readonly string[] = definition.labelNames;
      const add = (values: Labels, by: number): void => {
        counted.inc(Object.fromEntries(names.map((name, index) => [name, values[index] ?? ''])), by);
      };
      for (const values of known) add(values, 0);
      return (...values: Labels): void => add(values, 1);
    },
    scraped: <L extends string>(
      definition: MetricDefinition<'gauge', L>,
      samples: () => Iterable<Sample<L>>,
    ) =>
      new Gauge({
        ...definition,
        registers,
        collect() {
          if (definition.labelNames.length > 0) this.reset();
          else this.remove(); // a reset would leave a series with the value 0
          for (const [labels, value] of samples()) this.set(labels, value);
        },
      }),
    observeTraced: <Labels extends Readonly<Record<string, string>>>(
      definition: HistogramDefinition<keyof Labels & string>,
      exemplar: ExemplarLabels,
    ) => {
      // A plain-text registry refuses to create such a histogram, but can print one: without its exemplars.
      const openMetrics = new Registry<OpenMetricsContentType>();
      openMetrics.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
      const observed = new Histogram<string>({
        ...definition,
        registers: [openMetrics],
        enableExemplars: true,
      });
      registry.registerMetric(observed);
      return (labels: Labels, value: number): void => {
        observed.observe({ labels, value, exemplarLabels: { ...exemplar() } });
      };
    },
  };
}

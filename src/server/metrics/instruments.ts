import { Counter, Gauge, Histogram, Registry, type OpenMetricsContentType } from 'prom-client';

import { METRICS, type MetricDefinition } from './catalog.ts';

/** The current trace as labels; undefined outside of a trace. */
export type ExemplarLabels = () => Readonly<Record<string, string>> | undefined;
type Of<Type extends MetricDefinition['type'], L extends string> = MetricDefinition & {
  readonly type: Type;
  readonly labels: readonly L[];
};
export type Sample<L extends string> = readonly [labels: Partial<Record<L, string>>, value: number];

export type Instruments = ReturnType<typeof createInstruments>;

/** Creates instruments as their definitions say. */
export function createInstruments(registry: Registry) {
  const optionsOf = <L extends string>({ name, help, labels }: Of<MetricDefinition['type'], L>) => ({
    name,
    help,
    labelNames: [...labels],
    registers: [registry],
  });
  const histogram = <L extends string>(
    definition: Of<'histogram', L>,
    collect?: (histogram: Histogram<L>) => void,
  ) =>
    new Histogram<L>({
      ...optionsOf(definition),
      buckets: [...(definition.buckets ?? [])],
      ...(collect && {
        collect() {
          collect(this);
        },
      }),
    });
  return {
    counter: <L extends string>(definition: Of<'counter', L>) => new Counter<L>(optionsOf(definition)),
    gauge: <L extends string>(definition: Of<'gauge', L>) => new Gauge<L>(optionsOf(definition)),
    /** `collect` runs at each scrape. */
    histogram,
    /**
     * Adds one per call. The arguments are the labels, in the order of the definition.
     * @param known start at 0: Prometheus sees the first increase only in a series that exists already
     */
    count: <Labels extends readonly (string | number)[]>(
      definition: Of<'counter', string> & {
        readonly labels: { readonly [Index in keyof Labels]: string };
      },
      known: readonly Labels[] = [],
    ) => {
      const counter = new Counter(optionsOf(definition));
      const add = (values: Labels, by: number): void => {
        counter.inc(Object.fromEntries(definition.labels.map((label, index) => [label, values[index]])), by);
      };
      for (const values of known) add(values, 0);
      return (...values: Labels): void => {
        add(values, 1);
      };
    },
    /** Records one value per call. */
    observe: <Labels extends Readonly<Record<string, string>>>(
      definition: Of<'histogram', keyof Labels & string>,
    ) => {
      const observed = histogram(definition);
      return (labels: Labels, value: number): void => {
        observed.observe(labels, value);
      };
    },
    /** A gauge with the values that `samples` returns at a scrape; a series without a value disappears. */
    scraped: <L extends string>(definition: Of<'gauge', L>, samples: () => Iterable<Sample<L>>) =>
      new Gauge<L>({
        ...optionsOf(definition),
        collect() {
          if (definition.labels.length > 0) this.reset();
          else this.remove(); // a reset would leave a series with the value 0
          for (const [labels, value] of samples()) this.set(labels, value);
        },
      }),
    /** The histogram of admission reviews, with exemplars if there are traces. */
    admission: (exemplar: ExemplarLabels | undefined) => {
      if (exemplar === undefined) {
        const reviews = histogram(METRICS.admission);
        return (labels: AdmissionLabels, seconds: number) => {
          reviews.observe(labels, seconds);
        };
      }
      // A plain-text registry refuses to create such a histogram, but can print one: without its exemplars.
      const openMetrics = new Registry<OpenMetricsContentType>();
      openMetrics.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
      const reviews = new Histogram({
        ...optionsOf(METRICS.admission),
        buckets: [...METRICS.admission.buckets],
        registers: [openMetrics],
        enableExemplars: true,
      });
      registry.registerMetric(reviews);
      return (labels: AdmissionLabels, value: number) => {
        reviews.observe({ labels, value, exemplarLabels: { ...exemplar() } });
      };
    },
  };
}

type AdmissionLabels = Record<(typeof METRICS.admission.labels)[number], string>;

import { Counter, Gauge, Histogram, Registry, type OpenMetricsContentType } from 'prom-client';

import { METRICS, type MetricDefinition } from './catalog.ts';

/** The current trace as labels; undefined outside of a trace. */
export type ExemplarLabels = () => Readonly<Record<string, string>> | undefined;
type AdmissionLabels = Record<(typeof METRICS.admission.labels)[number], string>;
type Of<Type extends MetricDefinition['type'], L extends string> = MetricDefinition & {
  readonly type: Type;
  readonly labels: readonly L[];
};

export type Instruments = ReturnType<typeof createInstruments>;

/** Creates instruments as their definitions say. `collect` runs at each scrape. */
export function createInstruments(registry: Registry) {
  const optionsOf = <L extends string>({ name, help, labels }: Of<MetricDefinition['type'], L>) => ({
    name,
    help,
    labelNames: [...labels],
    registers: [registry],
  });
  const bucketsOf = ({ buckets = [] }: MetricDefinition) => [...buckets];
  return {
    counter: <L extends string>(definition: Of<'counter', L>) => new Counter<L>(optionsOf(definition)),
    gauge: <L extends string>(definition: Of<'gauge', L>, collect?: (gauge: Gauge<L>) => void) =>
      new Gauge<L>({
        ...optionsOf(definition),
        ...(collect && {
          collect() {
            collect(this);
          },
        }),
      }),
    histogram: <L extends string>(
      definition: Of<'histogram', L>,
      collect?: (histogram: Histogram<L>) => void,
    ) =>
      new Histogram<L>({
        ...optionsOf(definition),
        buckets: bucketsOf(definition),
        ...(collect && {
          collect() {
            collect(this);
          },
        }),
      }),
    /** The histogram of admission reviews, with exemplars if there are traces. */
    admission: (exemplar: ExemplarLabels | undefined) => {
      const options = { ...optionsOf(METRICS.admission), buckets: bucketsOf(METRICS.admission) };
      if (exemplar === undefined) {
        const reviews = new Histogram(options);
        return (labels: AdmissionLabels, seconds: number) => {
          reviews.observe(labels, seconds);
        };
      }
      // A plain-text registry refuses to create such a histogram, but can print one: without its exemplars.
      const openMetrics = new Registry<OpenMetricsContentType>();
      openMetrics.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
      const reviews = new Histogram({ ...options, registers: [openMetrics], enableExemplars: true });
      registry.registerMetric(reviews);
      return (labels: AdmissionLabels, value: number) => {
        reviews.observe({ labels, value, exemplarLabels: { ...exemplar() } });
      };
    },
  };
}

import { Histogram, Registry, type OpenMetricsContentType } from 'prom-client';

export type Outcome = 'allow' | 'deny' | 'retry' | 'error';

export interface AdmissionMetrics {
  readonly admission: (
    labels: { webhook: string; operation: string; outcome: Outcome },
    seconds: number,
  ) => void;
}

/** The trace in whose course it is called, as labels; undefined where there is none. */
export type ExemplarLabels = () => Readonly<Record<string, string>> | undefined;

/** Seconds: an admission that needs no live read takes well under a millisecond, one that does a few. */
export const ADMISSION_BUCKETS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];

const OPTIONS = {
  name: 'gatehouse_admission_duration_seconds',
  help: 'How long an admission review took to answer, by webhook and outcome.',
  labelNames: ['webhook', 'operation', 'outcome'],
  buckets: ADMISSION_BUCKETS,
};

export function createAdmissionMetrics(
  registry: Registry,
  exemplar: ExemplarLabels | undefined,
): AdmissionMetrics {
  if (exemplar === undefined) {
    const reviews = new Histogram({ ...OPTIONS, registers: [registry] });
    return {
      admission: (labels, seconds) => {
        reviews.observe(labels, seconds);
      },
    };
  }
  // A registry of plain text does not let such a histogram be made for it, but writes it: without the exemplars.
  const openMetrics = new Registry<OpenMetricsContentType>();
  openMetrics.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
  const reviews = new Histogram({ ...OPTIONS, registers: [openMetrics], enableExemplars: true });
  registry.registerMetric(reviews);
  return {
    admission: (labels, value) => {
      reviews.observe({ labels, value, exemplarLabels: { ...exemplar() } });
    },
  };
}

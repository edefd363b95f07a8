/** Metrics of conversions. Their labels are names of CustomResourceDefinitions that somebody converts: no client can make more. */
import { Counter, Histogram, type Registry } from 'prom-client';

/** `unready`: the API server was asked to ask again. */
export type ConversionOutcome = 'converted' | 'failed' | 'unready' | 'error';

export interface ConversionMetrics {
  /** @param labels `crd` is empty where nobody converts what was asked for */
  readonly conversion: (
    labels: { readonly crd: string; readonly outcome: ConversionOutcome },
    seconds: number,
    objects: number,
  ) => void;
}

/** Seconds: from one object to a list of all that there are. */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export function createConversionMetrics(registers: Registry[]): ConversionMetrics {
  const labelNames = ['crd', 'outcome'];
  const duration = new Histogram({
    name: 'gatehouse_conversion_duration_seconds',
    help: 'How long a conversion review took to answer, by CustomResourceDefinition and outcome.',
    labelNames,
    buckets: BUCKETS,
    registers,
  });
  const converted = new Counter({
    name: 'gatehouse_conversion_objects_total',
    help: 'Objects in conversion reviews, by CustomResourceDefinition and outcome.',
    labelNames,
    registers,
  });
  return {
    conversion: (labels, seconds, objects) => {
      duration.observe(labels, seconds);
      converted.inc(labels, objects);
    },
  };
}

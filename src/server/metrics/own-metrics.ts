/** The metrics that controllers of users declare. */
import type { Counter, Gauge, Histogram } from 'prom-client';

import type { MetricWrite, OwnMetricDefinition } from '../../api/own-metric.ts';
import type { Log } from '../../log.ts';
import { METRICS } from './catalog.ts';
import type { Instruments } from './instruments.ts';

/** Values of labels come from objects of users, and each series takes memory here and in Prometheus. */
const MOST_SERIES = 1_000;

interface Metric {
  readonly shape: string;
  readonly instrument: Counter | Gauge | Histogram;
  readonly series: Map<string, Readonly<Record<string, string>>>;
}

export type OwnMetrics = ReturnType<typeof createOwnMetrics>;

export function createOwnMetrics(instruments: Instruments) {
  const metrics = new Map<string, Metric>();
  const dropped = instruments.counter(METRICS.droppedSeries);
  const metricFor = (name: string, definition: OwnMetricDefinition): Metric => {
    const { type, help, labels = [], buckets } = definition;
    const shape = JSON.stringify([type, labels.toSorted(), buckets]);
    const known = metrics.get(name);
    if (known !== undefined && known.shape !== shape)
      throw new Error(
        `the metric ${name} has another type, other labels or buckets in another controller: rename it`,
      );
    if (known !== undefined) return known;
    const common = { name, help, labelNames: ['controller', ...labels] };
    const instrument =
      type === 'histogram'
        ? instruments.histogram({ ...common, ...(buckets && { buckets: [...buckets] }) } as never)
        : instruments[type](common as never);
    const made = { shape, instrument, series: new Map() };
    metrics.set(name, made);
    return made;
  };
  /** @throws Error if another controller has a different metric with this name */
  return (controller: string, definitions: Readonly<Record<string, OwnMetricDefinition>>) => {
    const own = new Map(
      Object.entries(definitions).map(([name, definition]) => [name, metricFor(name, definition)]),
    );
    let isLogged = false;
    return {
      own: ({ name, verb, value, labels }: MetricWrite, log: Pick<Log, 'warn'>): void => {
        const metric = own.get(name);
        if (metric === undefined) return;
        const all = { ...labels, controller };
        const key = JSON.stringify(all);
        if (verb === 'remove') {
          metric.series.delete(key);
          metric.instrument.remove(all);
          return;
        }
        if (!metric.series.has(key) && metric.series.size >= MOST_SERIES) {
          dropped.inc({ controller });
          if (!isLogged)
            log.warn({ metric: name }, `a metric has ${MOST_SERIES} series: further ones are dropped`);
          isLogged = true;
          return;
        }
        metric.series.set(key, all);
        writeTo(metric.instrument, verb, all, value);
      },
      endOwn: (): void => {
        for (const { instrument, series } of own.values())
          for (const [key, labels] of series) {
            if (labels.controller !== controller) continue;
            instrument.remove(labels);
            series.delete(key);
          }
      },
    };
  };
}

function writeTo(
  instrument: Metric['instrument'],
  verb: MetricWrite['verb'],
  labels: Readonly<Record<string, string>>,
  value: number,
): void {
  if (verb === 'add' && 'inc' in instrument) instrument.inc(labels, value);
  if (verb === 'set' && 'set' in instrument) instrument.set(labels, value);
  if (verb === 'observe' && 'observe' in instrument) instrument.observe(labels, value);
}

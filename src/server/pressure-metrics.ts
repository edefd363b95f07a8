import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

import { OVERLOADS, type Overload } from './pressure.ts';

export interface PressureMetrics {
  /** `count` is asked at each scrape. */
  readonly reviewsInFlight: (count: () => number) => void;
  readonly refusedReview: (why: Overload) => void;
  /** The longest turn of the event loop within a second, in seconds. */
  readonly eventLoopDelay: (seconds: number) => void;
}

const DELAY_BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5];

export function createPressureMetrics(registers: Registry[]): PressureMetrics {
  let inFlight = () => 0;
  new Gauge({
    name: 'gatehouse_admission_reviews_in_flight',
    help: 'Admission reviews whose answer is being found.',
    registers,
    collect() {
      this.set(inFlight());
    },
  });
  const refused = new Counter({
    name: 'gatehouse_admission_reviews_refused_total',
    help: 'Admission reviews answered 429, to be sent again, by what there was too much of.',
    labelNames: ['reason'],
    registers,
  });
  for (const reason of OVERLOADS) refused.inc({ reason }, 0); // from 0 to 1 is a rise that Prometheus sees
  const delay = new Histogram({
    name: 'gatehouse_event_loop_delay_seconds',
    help: 'The longest time within each second for which nothing was answered.',
    buckets: DELAY_BUCKETS,
    registers,
  });
  return {
    reviewsInFlight: (count) => {
      inFlight = count;
    },
    refusedReview: (reason) => {
      refused.inc({ reason });
    },
    eventLoopDelay: (seconds) => {
      delay.observe(seconds);
    },
  };
}

/** Metrics of serving certs. On the leader: a replica that does not look must not say that all is well. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** How the serving certs stand at the moment of a scrape. */
export interface ServingCertsView {
  readonly all: () => readonly { readonly notAfter: Date; readonly generation: string | undefined }[];
  /** Those that nobody renews any more, by reason. */
  readonly stoppedByReason: () => ReadonlyMap<string, number>;
  /** How many wait for their turn to be issued again. */
  readonly waiting: () => number;
  readonly now: () => Date;
}

export interface ServingCertMetrics {
  /** Asked at each scrape; undefined when this replica no longer leads. */
  readonly servingCerts: (view: ServingCertsView | undefined) => void;
  readonly issue: (result: string, reason: string) => void;
}

const DAY = 86_400;
/** An hour, a day, then the thirds of the usual lives. */
const REMAINING_BUCKETS = [
  0,
  3_600,
  DAY,
  3 * DAY,
  7 * DAY,
  14 * DAY,
  30 * DAY,
  60 * DAY,
  90 * DAY,
  365 * DAY,
];

export function createServingCertMetrics(registers: Registry[]): ServingCertMetrics {
  let view: ServingCertsView | undefined;
  const issued = new Counter({
    name: 'gatehouse_issue_total',
    help: 'Serving certs that were to be issued, by result (issued, refused, failed) and reason.',
    labelNames: ['result', 'reason'],
    registers,
  });
  new Histogram({
    name: 'gatehouse_serving_leaf_not_after_seconds',
    help: 'How long the serving certs of today still live: a snapshot, made anew at each scrape.',
    buckets: REMAINING_BUCKETS,
    registers,
    collect() {
      this.reset();
      const now = view?.now().getTime() ?? 0;
      for (const { notAfter } of view?.all() ?? []) this.observe((notAfter.getTime() - now) / 1_000);
    },
  });
  new Gauge({
    name: 'gatehouse_serving_leaf_generation',
    help: 'Serving certs by the generation of the authority that signed them; unknown: none of ours.',
    labelNames: ['generation'],
    registers,
    collect() {
      this.reset();
      for (const { generation } of view?.all() ?? []) this.inc({ generation: generation ?? 'unknown' });
    },
  });
  new Gauge({
    name: 'gatehouse_serving_leaf_not_renewed',
    help: 'Serving certs in Secrets that nobody renews any more, by reason.',
    labelNames: ['reason'],
    registers,
    collect() {
      this.reset();
      for (const [reason, count] of view?.stoppedByReason() ?? []) this.set({ reason }, count);
    },
  });
  new Gauge({
    name: 'gatehouse_serving_reissue_waiting',
    help: 'Serving certs that wait for their turn to be issued again.',
    labelNames: [],
    registers,
    collect() {
      this.remove();
      if (view !== undefined) this.set(view.waiting());
    },
  });

  return {
    servingCerts: (next) => {
      view = next;
    },
    issue: (result, reason) => {
      issued.inc({ result, reason });
    },
  };
}

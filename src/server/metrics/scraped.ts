/** Metrics whose values are read at each scrape, from functions that the other parts of the process register. */
import { METRICS } from './catalog.ts';
import type { Instruments } from './instruments.ts';

/** Work in progress in a workqueue at the time of a scrape. */
export interface WorkqueueLoad {
  readonly unfinishedWorkSeconds: number;
  readonly longestRunningProcessorSeconds: number;
}

/** The serving certs at the time of a scrape. */
export interface ServingCertsView {
  readonly all: () => readonly { readonly notAfter: Date; readonly generation: string | undefined }[];
  /** Serving certs that are no longer renewed, by reason. */
  readonly stoppedByReason: () => ReadonlyMap<string, number>;
  /** How many serving certs are in the queue to be issued again. */
  readonly waiting: () => number;
  readonly now: () => Date;
}

/** The objects that request a CA bundle, at the time of a scrape. */
export interface CaBundleTargets {
  readonly targets: () => readonly {
    readonly kind: string;
    readonly state: string;
    readonly count: number;
  }[];
  readonly staleSeconds: () => number;
}

export interface RestoreWindowFigures {
  readonly window: string;
  /** e.g. `Detector`, `Manual`. */
  readonly source: string;
  readonly open: boolean;
  /** Seconds since 1970. */
  readonly expiresAt: number;
  readonly violations: number;
}

/** Each function registers what to read. Undefined: this replica no longer leads, so the metric disappears. */
export function createScrapedMetrics({ gauge, histogram }: Instruments) {
  let reviewsInFlight = () => 0;
  let connections = () => 0;
  let clockSkewMs: () => number | undefined = () => undefined;
  let windows: () => readonly RestoreWindowFigures[] = () => [];
  // Absent on replicas that do not lead: they do not read this state and must not report it as healthy.
  let servingCerts: ServingCertsView | undefined;
  let caBundles: CaBundleTargets | undefined;
  let violations: (() => readonly { readonly policy: string; readonly total: number }[]) | undefined;
  let sharedValues: (() => ReadonlyMap<string, number>) | undefined;

  gauge(METRICS.reviewsInFlight, (one) => {
    one.set(reviewsInFlight());
  });
  gauge(METRICS.connections, (one) => {
    one.set(connections());
  });
  gauge(METRICS.clockSkew, (one) => {
    const skew = clockSkewMs();
    if (skew !== undefined) one.set(skew / 1_000);
  });
  gauge(METRICS.policyViolations, (one) => {
    one.reset();
    for (const { policy, total } of violations?.() ?? []) one.set({ policy }, total);
  });
  gauge(METRICS.sharedValues, (one) => {
    one.reset();
    for (const [policy, count] of sharedValues?.() ?? []) one.set({ policy }, count);
  });
  gauge(METRICS.caBundleTargets, (one) => {
    one.reset();
    for (const { kind, state, count } of caBundles?.targets() ?? []) one.set({ kind, state }, count);
  });
  gauge(METRICS.caBundleStale, (one) => {
    one.remove();
    if (caBundles !== undefined) one.set(caBundles.staleSeconds());
  });
  histogram(METRICS.certRemaining, (one) => {
    one.reset();
    const now = servingCerts?.now().getTime() ?? 0;
    for (const { notAfter } of servingCerts?.all() ?? []) one.observe((notAfter.getTime() - now) / 1_000);
  });
  gauge(METRICS.certGeneration, (one) => {
    one.reset();
    for (const { generation } of servingCerts?.all() ?? []) one.inc({ generation: generation ?? 'unknown' });
  });
  gauge(METRICS.certNotRenewed, (one) => {
    one.reset();
    for (const [reason, count] of servingCerts?.stoppedByReason() ?? []) one.set({ reason }, count);
  });
  gauge(METRICS.reissueWaiting, (one) => {
    one.remove();
    if (servingCerts !== undefined) one.set(servingCerts.waiting());
  });
  gauge(METRICS.windowOpen, (one) => {
    one.reset();
    for (const { window, source, open } of windows()) if (open) one.set({ window, source }, 1);
  });
  gauge(METRICS.windowExpires, (one) => {
    one.reset();
    for (const { window, open, expiresAt } of windows()) if (open) one.set({ window }, expiresAt);
  });
  gauge(METRICS.restoreViolations, (one) => {
    one.reset();
    for (const { window, violations } of windows()) one.set({ window }, violations);
  });

  return {
    reviewsInFlight: (count: () => number) => {
      reviewsInFlight = count;
    },
    webhookConnections: (count: () => number) => {
      connections = count;
    },
    /** How far our clock is ahead of the API server's, in milliseconds. */
    clockSkew: (skewMs: () => number | undefined) => {
      clockSkewMs = skewMs;
    },
    servingCerts: (view: ServingCertsView | undefined) => {
      servingCerts = view;
    },
    caBundles: (targets: CaBundleTargets | undefined) => {
      caBundles = targets;
    },
    policyViolations: (next: typeof violations) => {
      violations = next;
    },
    sharedValues: (counts: typeof sharedValues) => {
      sharedValues = counts;
    },
    restoreWindows: (figures: () => readonly RestoreWindowFigures[]) => {
      windows = figures;
    },
  };
}

export function createWorkqueueMetrics({ counter, gauge, histogram }: Instruments) {
  const loads = new Map<string, () => WorkqueueLoad>();
  const depth = gauge(METRICS.queueDepth);
  const adds = counter(METRICS.queueAdds);
  const retries = counter(METRICS.queueRetries);
  const waited = histogram(METRICS.queueDuration);
  const worked = histogram(METRICS.workDuration);
  gauge(METRICS.unfinishedWork, (one) => {
    for (const [name, load] of loads) one.set({ name }, load().unfinishedWorkSeconds);
  });
  gauge(METRICS.longestRunning, (one) => {
    for (const [name, load] of loads) one.set({ name }, load().longestRunningProcessorSeconds);
  });
  return {
    queue: (name: string) => ({
      depth: (keys: number) => {
        depth.set({ name }, keys);
      },
      added: () => {
        adds.inc({ name });
      },
      retried: () => {
        retries.inc({ name });
      },
      queueDuration: (seconds: number) => {
        waited.observe({ name }, seconds);
      },
      workDuration: (seconds: number) => {
        worked.observe({ name }, seconds);
      },
    }),
    /** A later queue of the same name replaces `load`. */
    queueLoad: (name: string, load: () => WorkqueueLoad) => {
      loads.set(name, load);
    },
  };
}

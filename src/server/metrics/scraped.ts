/** Metrics whose values are read at each scrape, from functions that the other parts of the process register. */
import { METRICS } from './catalog.ts';
import type { Instruments, Sample } from './instruments.ts';

export interface RestoreWindowFigures {
  readonly window: string;
  readonly source: string;
  readonly open: boolean;
  readonly expiresAt: number;
  readonly violations: number | undefined;
  readonly sweep: { readonly phase: string; readonly objects: number } | undefined;
}

export interface RehearsalFigures {
  /** Without a result: since when there should be one, so that the alert about its age fires. */
  readonly finishedAt: Date;
  readonly total?: number;
  readonly added?: number;
  readonly backupTakenAt?: Date;
}

const ENDPOINT_STATES = ['current', 'stale', 'foreign', 'unreachable'] as const;

/** What a scrape reads. A metric without a source, e.g. on a replica that does not lead, is empty. */
export interface ScrapeSources {
  readonly reviewsInFlight?: () => number;
  readonly connections?: () => number;
  readonly clockSkew?: () => number | undefined;
  readonly servingCerts?: {
    readonly all: () => readonly { readonly notAfter: Date; readonly generation: string | undefined }[];
    readonly stoppedByReason: () => ReadonlyMap<string, number>;
    readonly waiting: () => number;
    readonly contended: () => number;
    readonly now: () => Date;
  };
  readonly servedCerts?: () => Readonly<Record<(typeof ENDPOINT_STATES)[number], number>>;
  readonly caBundles?: {
    readonly targets: () => readonly {
      readonly kind: string;
      readonly state: string;
      readonly count: number;
    }[];
    readonly staleSeconds: () => number;
    readonly unreadable: () => readonly { readonly kind: string }[];
  };
  readonly policyViolations?: () => ReadonlyMap<string, { readonly total: number }>;
  readonly sharedValues?: () => ReadonlyMap<string, number>;
  readonly unsettledClaims?: () => number;
  readonly restoreWindows?: () => readonly RestoreWindowFigures[];
  readonly rehearsal?: () => RehearsalFigures | undefined;
}

export function createScrapedMetrics({ scraped, histogram }: Instruments) {
  const registered = new Set<ScrapeSources>();
  const source = <Name extends keyof ScrapeSources>(name: Name): ScrapeSources[Name] | undefined =>
    [...registered].findLast((sources) => sources[name] !== undefined)?.[name];
  const windows = () => source('restoreWindows')?.() ?? [];
  const openWindows = () => windows().filter(({ open }) => open);
  const certs = () => source('servingCerts')?.all() ?? [];

  scraped(METRICS.reviewsInFlight, () => [[{}, source('reviewsInFlight')?.() ?? 0]]);
  scraped(METRICS.connections, () => [[{}, source('connections')?.() ?? 0]]);
  scraped(METRICS.clockSkew, () => [[{}, (source('clockSkew')?.() ?? 0) / 1_000]]);
  scraped(METRICS.policyViolations, () =>
    [...(source('policyViolations')?.() ?? [])].map(([policy, { total }]) => [{ policy }, total]),
  );
  scraped(METRICS.sharedValues, () =>
    [...(source('sharedValues')?.() ?? [])].map(([policy, count]) => [{ policy }, count]),
  );
  scraped(METRICS.unsettledClaims, () => single(source('unsettledClaims')?.()));
  scraped(METRICS.caBundleTargets, () =>
    (source('caBundles')?.targets() ?? []).map(({ kind, state, count }) => [{ kind, state }, count]),
  );
  scraped(METRICS.caBundleUnreadable, () =>
    (source('caBundles')?.unreadable() ?? []).map(({ kind }) => [{ kind }, 1]),
  );
  scraped(METRICS.caBundleStale, () => single(source('caBundles')?.staleSeconds()));
  histogram(METRICS.certRemaining, function () {
    this.reset();
    const now = source('servingCerts')?.now().getTime() ?? 0;
    for (const { notAfter } of certs()) this.observe((notAfter.getTime() - now) / 1_000);
  });
  scraped(METRICS.certGeneration, () =>
    [...Map.groupBy(certs(), ({ generation }) => generation ?? 'unknown')].map(([generation, { length }]) => [
      { generation },
      length,
    ]),
  );
  scraped(METRICS.certNotRenewed, () =>
    [...(source('servingCerts')?.stoppedByReason() ?? [])].map(([reason, count]) => [{ reason }, count]),
  );
  scraped(METRICS.servedCerts, () => {
    const counts = source('servedCerts')?.();
    return counts === undefined ? [] : ENDPOINT_STATES.map((state) => [{ state }, counts[state]]);
  });
  scraped(METRICS.reissueWaiting, () => single(source('servingCerts')?.waiting()));
  scraped(METRICS.secretsContended, () => single(source('servingCerts')?.contended()));
  scraped(METRICS.windowOpen, () => openWindows().map(({ window, source }) => [{ window, source }, 1]));
  scraped(METRICS.windowExpires, () => openWindows().map(({ window, expiresAt }) => [{ window }, expiresAt]));
  scraped(METRICS.restoreViolations, () =>
    windows().flatMap(({ window, violations }) =>
      violations === undefined ? [] : [[{ window }, violations] as const],
    ),
  );
  scraped(METRICS.sweepScanned, () =>
    windows().flatMap(({ window, sweep }) =>
      sweep === undefined ? [] : [[{ window, phase: sweep.phase }, sweep.objects] as const],
    ),
  );
  const rehearsal = () => source('rehearsal')?.();
  const seconds = (date: Date | undefined) => date && Math.floor(date.getTime() / 1_000);
  scraped(METRICS.rehearsalProblems, () => single(rehearsal()?.total));
  scraped(METRICS.rehearsalNewProblems, () => single(rehearsal()?.added));
  scraped(METRICS.rehearsedAt, () => single(seconds(rehearsal()?.finishedAt)));
  scraped(METRICS.rehearsedBackupAt, () => single(seconds(rehearsal()?.backupTakenAt)));

  return {
    /** Reads these sources at each scrape, until `signal` aborts. A later source of the same name replaces one. */
    scrape: (sources: ScrapeSources, signal?: AbortSignal) => {
      registered.add(sources);
      signal?.addEventListener('abort', () => registered.delete(sources));
    },
  };
}

const single = (value: number | undefined): readonly Sample<never>[] =>
  value === undefined ? [] : [[{}, value]];

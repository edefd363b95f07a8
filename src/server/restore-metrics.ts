/** Metrics of restores: what is open, what was let in, what is left to mend. */
import { Counter, Gauge, type Registry } from 'prom-client';

export interface RestoreWindowFigures {
  readonly window: string;
  /** e.g. `Detector`, `Manual`. */
  readonly source: string;
  readonly open: boolean;
  /** Seconds since 1970. */
  readonly expiresAt: number;
  readonly violations: number;
}

export interface RestoreMetrics {
  /** Something was let in that is looked at later. */
  readonly deferred: (policy: string) => void;
  /** Asked at each scrape. */
  readonly restoreWindows: (windows: () => readonly RestoreWindowFigures[]) => void;
}

export function createRestoreMetrics(registers: Registry[]): RestoreMetrics {
  let current: () => readonly RestoreWindowFigures[] = () => [];
  const deferred = new Counter({
    name: 'gatehouse_restore_deferred_total',
    help: 'Checks that were left for later because their requester restores, or may defer them at any time, by policy.',
    labelNames: ['policy'],
    registers,
  });
  const gauge = (
    name: string,
    help: string,
    labelNames: readonly ('window' | 'source')[],
    valueOf: (figures: RestoreWindowFigures) => number | undefined,
  ) => {
    new Gauge({
      name,
      help,
      labelNames,
      registers,
      collect() {
        this.reset();
        for (const figures of current()) {
          const value = valueOf(figures);
          if (value === undefined) continue;
          this.set(Object.fromEntries(labelNames.map((label) => [label, figures[label]])), value);
        }
      },
    });
  };
  gauge(
    'gatehouse_restore_window_open',
    '1 for each RestoreWindow that is open.',
    ['window', 'source'],
    ({ open }) => (open ? 1 : undefined),
  );
  gauge(
    'gatehouse_restore_window_expires_timestamp_seconds',
    'When each open RestoreWindow ends by itself, in seconds since 1970.',
    ['window'],
    ({ open, expiresAt }) => (open ? expiresAt : undefined),
  );
  gauge(
    'gatehouse_restore_violations',
    'What the last sweep of each RestoreWindow found and still holds.',
    ['window'],
    ({ violations }) => violations,
  );
  return {
    deferred: (policy) => {
      deferred.inc({ policy });
    },
    restoreWindows: (windows) => {
      current = windows;
    },
  };
}

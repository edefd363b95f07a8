import type { Log } from '../../../src/log.ts';
import { createLoadShedding, type LoadShedding } from '../../../src/server/limits/load-shedding.ts';
import type { Metrics } from '../../../src/server/metrics/metrics.ts';

interface Surroundings {
  readonly isLoopFull: () => boolean;
  readonly metrics: Pick<Metrics, 'scrape' | 'refusedReview'>;
  readonly log: Pick<Log, 'warn'>;
  readonly now: () => number;
}

export function loadSheddingOf(
  limits: Partial<Parameters<typeof createLoadShedding>[0]> = {},
  {
    isLoopFull = () => false,
    metrics = { scrape: () => undefined, refusedReview: () => undefined },
    log = { warn: () => undefined },
    now,
  }: Partial<Surroundings> = {},
): LoadShedding {
  const all = { reviews: 1_000, bodyBytes: 64 * 1024 * 1024, ...limits };
  return createLoadShedding(all, isLoopFull, metrics, log, now);
}

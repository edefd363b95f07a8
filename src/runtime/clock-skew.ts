/**
 * Compares the local clock with the clock of the API server. Windows open and end by the time of the API server; log
 * lines carry the local time.
 */
import { systemClock, type Clock, type ServerClock } from '../kube/clock.ts';
import type { Log } from '../log.ts';
import type { Metrics } from '../server/metrics/metrics.ts';

/** Synchronised clocks differ by a second or two. Above this limit, windows seem to end too early or too late. */
const MAX_SKEW_MS = 30_000;
const CHECK_EVERY_MS = 30_000;

/** Logs when the clocks diverge, and when they agree again. */
export function watchClockSkew(
  serverClock: Pick<ServerClock, 'skewMs'>,
  metrics: Pick<Metrics, 'scrape'>,
  log: Pick<Log, 'info' | 'warn'>,
  signal: AbortSignal,
  clock: Pick<Clock, 'after'> = systemClock,
): void {
  metrics.scrape({ clockSkew: serverClock.skewMs });
  let apart = false;
  let cancel = (): void => undefined;
  const check = (): void => {
    const skewMs = serverClock.skewMs() ?? 0;
    const seconds = Math.round(skewMs / 1_000);
    const isApart = Math.abs(skewMs) > MAX_SKEW_MS;
    if (isApart && !apart)
      log.warn(
        { seconds },
        `the clock of this replica is ${Math.abs(seconds)} s ${seconds > 0 ? 'ahead of' : 'behind'} that of the API server: synchronise it`,
      );
    if (!isApart && apart)
      log.info({ seconds }, 'the clocks of this replica and of the API server agree again');
    apart = isApart;
    cancel = clock.after(CHECK_EVERY_MS, check);
  };
  cancel = clock.after(CHECK_EVERY_MS, check);
  signal.addEventListener('abort', () => {
    cancel();
  });
}

/** The local clock, compared with the clock of the API server and with the time of timers. */
import { systemClock, type Clock, type ServerClock } from '../kube/clock.ts';
import type { Log } from '../log.ts';
import { CLOCK_TOLERANCE } from '../pki/durations.ts';
import type { Metrics } from '../server/metrics/metrics.ts';

/** In milliseconds. Synchronised clocks differ by a second or two. */
export const WARN_SKEW_MS = 30_000;
/** A smaller step is a time service that adjusts the clock. */
const JUMP_MS = 60_000;
/** Often enough that a machine that slept through a renewal renews soon after it wakes up. */
const CHECK_EVERY_MS = 30_000;

/** If the clocks differ by more than the tolerance, a new certificate could be valid on one side only. */
export function skewProblem(skewMs: number | undefined): string | undefined {
  if (skewMs === undefined || Math.abs(skewMs) <= CLOCK_TOLERANCE) return undefined;
  const [minutes, where] = [Math.round(Math.abs(skewMs) / 60_000), skewMs > 0 ? 'ahead of' : 'behind'];
  return `the clock of this replica is ${minutes} minutes ${where} the clock of the API server: correct the one that is wrong`;
}

export function watchClockSkew(
  serverClock: Pick<ServerClock, 'skewMs'>,
  metrics: Pick<Metrics, 'scrape'>,
  log: Pick<Log, 'info' | 'warn'>,
  signal: AbortSignal,
  clock: Pick<Clock, 'after'> = systemClock,
): void {
  metrics.scrape({ clockSkew: serverClock.skewMs });
  let apart = false;
  const check = (): void => {
    const skewMs = serverClock.skewMs() ?? 0;
    const seconds = Math.round(skewMs / 1_000);
    const isApart = Math.abs(skewMs) > WARN_SKEW_MS;
    if (isApart && !apart)
      log.warn(
        { seconds },
        `the clock of this replica is ${Math.abs(seconds)} s ${seconds > 0 ? 'ahead of' : 'behind'} the clock of the API server: synchronise it`,
      );
    if (!isApart && apart)
      log.info({ seconds }, 'the clocks of this replica and of the API server agree again');
    apart = isApart;
  };
  repeat(check, clock, signal);
}

/** Work that was scheduled for a time may be due after a clock was set, or the machine was suspended. */
export function followClock(
  now: () => Date,
  onJump: (jumpMs: number) => void,
  signal: AbortSignal,
  clock: Pick<Clock, 'monotonic' | 'after'> = systemClock,
): void {
  const distance = (): number => now().getTime() - clock.monotonic();
  let known = distance();
  const check = (): void => {
    const jump = distance() - known;
    if (Math.abs(jump) <= JUMP_MS) return;
    known += jump;
    onJump(jump);
  };
  repeat(check, clock, signal);
}

function repeat(check: () => void, clock: Pick<Clock, 'after'>, signal: AbortSignal): void {
  const next = (): (() => void) =>
    clock.after(CHECK_EVERY_MS, () => {
      check();
      cancel = next();
    });
  let cancel = next();
  signal.addEventListener('abort', () => cancel());
}

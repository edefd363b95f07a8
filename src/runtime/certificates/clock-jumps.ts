/** Clocks that jump, or that differ from the clock of the API server. */
import { systemClock, type Clock } from '../../kube/clock.ts';

/**
 * A CA is valid from one hour before it is made, and a serving cert from 30 minutes before. If the clocks differ by
 * more, a new certificate could be valid on one side only.
 */
export const MAX_SKEW_MS = 60 * 60_000;

/** What is wrong with the clocks; undefined if nothing is. */
export function skewProblem(skewMs: number | undefined): string | undefined {
  if (skewMs === undefined || Math.abs(skewMs) <= MAX_SKEW_MS) return undefined;
  const [minutes, where] = [Math.round(Math.abs(skewMs) / 60_000), skewMs > 0 ? 'ahead of' : 'behind'];
  return `the clock of this replica is ${minutes} minutes ${where} the clock of the API server: correct the one that is wrong`;
}

/** Often enough that a machine that slept through a renewal renews soon after it wakes up. */
const EVERY_MS = 30_000;
/** A smaller step is a time service that adjusts the clock. */
const JUMP_MS = 60_000;

/**
 * Calls `onJump` when wall-clock time and the time of timers diverge: a clock was set, or the machine was suspended.
 * Work that was scheduled for a time may be due, or no longer be due.
 */
export function followClock(
  now: () => Date,
  onJump: (jumpMs: number) => void,
  signal: AbortSignal,
  clock: Pick<Clock, 'monotonic' | 'after'> = systemClock,
): void {
  const distance = (): number => now().getTime() - clock.monotonic();
  let known = distance();
  let cancel = (): void => undefined;
  const check = (): void => {
    const jump = distance() - known;
    if (Math.abs(jump) > JUMP_MS) {
      known += jump;
      onJump(jump);
    }
    cancel = clock.after(EVERY_MS, check);
  };
  cancel = clock.after(EVERY_MS, check);
  signal.addEventListener('abort', () => {
    cancel();
  });
}

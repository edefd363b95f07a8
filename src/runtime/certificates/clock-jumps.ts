import { systemClock, type Clock } from '../../kube/clock.ts';

/** Often enough that a machine that slept through a renewal makes up for it at once. */
const EVERY_MS = 30_000;
/** Less than this is a clock that is kept in time. */
const JUMP_MS = 60_000;

/**
 * Tells when wall time and the time that timers wait by have parted: somebody set a clock, or the machine was suspended. What was
 * to be done at a time may be due, or not be due any more.
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
  const look = (): void => {
    const jump = distance() - known;
    if (Math.abs(jump) > JUMP_MS) {
      known += jump;
      onJump(jump);
    }
    cancel = clock.after(EVERY_MS, look);
  };
  cancel = clock.after(EVERY_MS, look);
  signal.addEventListener('abort', () => {
    cancel();
  });
}

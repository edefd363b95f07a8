/** The system clock, and how many of its timers are pending. `vi.getTimerCount` also counts those of earlier test files. */
import { systemClock, type Clock } from '../../../src/kube/clock.ts';

export function createCountedClock(): { readonly clock: Clock; readonly pending: () => number } {
  const timers = new Set<object>();
  const after: Clock['after'] = (ms, run) => {
    const timer = {};
    timers.add(timer);
    const cancel = systemClock.after(ms, () => {
      timers.delete(timer);
      run();
    });
    return () => {
      timers.delete(timer);
      cancel();
    };
  };
  return { clock: { ...systemClock, after }, pending: () => timers.size };
}

/** One read for all who wait for it. */
import { orAborted } from '../kube/clock.ts';

/** @throws what the read throws, or the reason of `signal` on abort */
export type SharedRead<T> = (signal: AbortSignal) => Promise<T>;

/**
 * What is read live before a refusal is often the same for many reviews that come at a time: how a kind is served, which windows are
 * open. Each of them has an answer that was asked for after it came: whoever comes while a read is under way shares the next one.
 */
export function createSharedRead<T>(read: () => Promise<T>): SharedRead<T> {
  let current: Promise<T> | undefined;
  let next: Promise<T> | undefined;
  const begin = (): Promise<T> => {
    const reading = read();
    current = reading;
    const end = (): void => {
      if (current === reading) current = undefined;
    };
    reading.then(end, end);
    return reading;
  };
  const follow = (before: Promise<T>): Promise<T> => {
    const goOn = (): Promise<T> => {
      next = undefined;
      return begin();
    };
    return before.then(goOn, goOn);
  };
  return (signal) => {
    if (next === undefined) {
      if (current === undefined) return orAborted(begin(), signal);
      next = follow(current);
    }
    return orAborted(next, signal);
  };
}

/** Shares one read between concurrent callers. */
import { orAborted } from '../json/abort.ts';

/** @throws what the read throws, or the reason of `signal` on abort */
export type SharedRead<T> = (signal: AbortSignal) => Promise<T>;

/**
 * Concurrent reviews often need the same live read before a refusal: how a kind is served, which windows are open. Each
 * caller gets the result of a read that began after its call. A caller that arrives during a read shares the next read.
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

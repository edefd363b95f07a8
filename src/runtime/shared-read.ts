import { orAborted } from '../json/abort.ts';

export type SharedRead<T> = (signal: AbortSignal) => Promise<T>;

/** Each caller gets the result of a read that began after its call. A caller during a read shares the next one. */
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

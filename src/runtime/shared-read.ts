import { orAborted } from '../json/abort.ts';

export type SharedRead<T> = (signal: AbortSignal) => Promise<T>;

/** Each caller gets the result of a read that began after its call. A caller during a read shares the next one. */
export function createSharedRead<T>(read: () => Promise<T>): SharedRead<T> {
  let current: Promise<T> | undefined;
  let next: Promise<T> | undefined;
  const begin = (): Promise<T> => {
    next = undefined;
    const reading = read();
    current = reading;
    const end = (): void => {
      if (current === reading) current = undefined;
    };
    reading.then(end, end);
    return reading;
  };
  return (signal) => {
    next ??= current?.then(begin, begin);
    return orAborted(next ?? begin(), signal);
  };
}

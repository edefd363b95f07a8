import type { Clock } from '../kube/clock.ts';

/** Calls `work` immediately, and then at most once per `ms`. Calls in between lead to one call at the end. */
export function atMostEvery(
  ms: number,
  work: () => void,
  { monotonic, after }: Pick<Clock, 'monotonic' | 'after'>,
  signal: AbortSignal,
): () => void {
  let last = Number.NEGATIVE_INFINITY;
  let cancel: (() => void) | undefined;
  const run = (): void => {
    cancel = undefined;
    last = monotonic();
    work();
  };
  signal.addEventListener('abort', () => cancel?.());
  return () => {
    if (cancel !== undefined || signal.aborted) return;
    const wait = last + ms - monotonic();
    if (wait <= 0) run();
    else cancel = after(wait, run);
  };
}

/** Follows the Secret that another object names, with a limit on how often it starts a new watch. */
import type { Clock } from '../../kube/clock.ts';
import { atMostEvery } from '../at-most-every.ts';

/** A tenant may edit the name many times per second, and each new watch costs the API server a list. */
export const FOLLOW_EVERY_MS = 10_000;

/**
 * @param start watches the Secret of this name
 * @param onSwitch another Secret is followed now
 */
export function followSecret<Source extends { readonly stop: () => void }>(
  start: (name: string) => Source,
  onSwitch: () => void,
  clock: Pick<Clock, 'monotonic' | 'after'>,
  signal: AbortSignal,
) {
  let wanted: string | undefined;
  let followed: { readonly name: string; readonly source: Source } | undefined;
  const apply = (): void => {
    if (wanted === followed?.name) return;
    followed?.source.stop();
    followed = wanted === undefined ? undefined : { name: wanted, source: start(wanted) };
    onSwitch();
  };
  const soon = atMostEvery(FOLLOW_EVERY_MS, apply, clock, signal);
  return {
    /** Undefined: none. The last name counts; until its turn, the previous Secret is followed. */
    want: (name: string | undefined): void => {
      wanted = name;
      if (name !== followed?.name) soon();
    },
    source: (): Source | undefined => followed?.source,
  };
}

import type { Condition } from '../json/kube-object.ts';

/**
 * `conditions` with `next` in its place. `lastTransitionTime` moves only when the status does.
 * Returns the same array when nothing changed, so that callers can tell by identity that there is nothing to write.
 */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  next: Omit<Condition, 'lastTransitionTime'>,
  now: Date,
): readonly Condition[] {
  const before = conditions ?? [];
  const index = before.findIndex(({ type }) => type === next.type);
  const current = before[index];
  if (current === undefined) return [...before, { ...next, lastTransitionTime: toRfc3339(now) }];

  const moved = current.status !== next.status;
  if (
    !moved &&
    current.reason === next.reason &&
    current.message === next.message &&
    current.observedGeneration === next.observedGeneration
  ) {
    return before;
  }
  const lastTransitionTime = moved ? toRfc3339(now) : current.lastTransitionTime;
  return before.with(index, { ...next, lastTransitionTime });
}

/** metav1.Time has whole seconds; what is sent with a fraction comes back without. */
export function toRfc3339(time: Date): string {
  return `${time.toISOString().slice(0, 19)}Z`;
}

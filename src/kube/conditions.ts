import { toTimestamp, type Condition } from '../json/kube-object.ts';

/**
 * `conditions` with `next` added or replaced. `lastTransitionTime` changes only with the status.
 * Returns the same array when nothing changed: callers compare by identity and skip the write.
 */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  next: Omit<Condition, 'lastTransitionTime'>,
  now: Date,
): readonly Condition[] {
  const before = conditions ?? [];
  const index = before.findIndex(({ type }) => type === next.type);
  const current = before[index];
  if (current === undefined) return [...before, { ...next, lastTransitionTime: toTimestamp(now) }];

  const moved = current.status !== next.status;
  if (
    !moved &&
    current.reason === next.reason &&
    current.message === next.message &&
    current.observedGeneration === next.observedGeneration
  )
    return before;
  const lastTransitionTime = moved ? toTimestamp(now) : current.lastTransitionTime;
  return before.with(index, { ...next, lastTransitionTime });
}

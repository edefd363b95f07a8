import { toTimestamp, type Condition } from './kube-object.ts';
import { cut } from './printable.ts';

/** The most characters of a message: the API server refuses a status with a longer one (`metav1.Condition`). */
const LONGEST_MESSAGE = 32_768;

/** Returns the same array when nothing changed: callers compare by identity and skip the write. */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  wanted: Omit<Condition, 'lastTransitionTime'>,
  now: Date,
): readonly Condition[] {
  const before = conditions ?? [];
  const next = { ...wanted, message: cut(wanted.message, LONGEST_MESSAGE) };
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

/** Why an object is not ready: Gatehouse retries, or nothing changes until a user acts. */
export type NotReady = 'Reconciling' | 'Stalled';

/** For kstatus, `Reconciling` and `Stalled` exist only while they are true. @param why undefined if the object is ready */
export function setReady(
  conditions: readonly Condition[] | undefined,
  ready: Omit<Condition, 'type' | 'lastTransitionTime'>,
  why: NotReady | undefined,
  now: Date,
): readonly Condition[] {
  const before = setCondition(conditions, { ...ready, type: 'Ready' }, now);
  const isOver = ({ type }: Condition) => (type === 'Reconciling' || type === 'Stalled') && type !== why;
  const kept = before.some(isOver) ? before.filter((one) => !isOver(one)) : before;
  return why === undefined ? kept : setCondition(kept, { ...ready, type: why, status: 'True' }, now);
}

/** What authors write into conditions, checked as API servers check `metav1.Condition`: an error shows where it happens. */
import type { AuthorCondition } from './status.ts';

const REASON = /^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/;
const TYPE = /^([-a-z0-9.]+\/)?([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)$/;
const STATUSES = ['True', 'False', 'Unknown'];
const LONGEST = 32_768;

/** The functions that set these conditions. */
const FRAMEWORK = new Map([
  ['Stalled', 'stall'],
  ['Reconciling', 'wait'],
]);

/** @throws TypeError */
export function checkedCondition({ type, status, reason, message }: AuthorCondition): AuthorCondition {
  const what = `condition ${type}`;
  const instead = FRAMEWORK.get(type);
  if (instead !== undefined) throw new TypeError(`${what}: call ${instead} instead`);
  if (typeof type !== 'string' || !TYPE.test(type) || type.length > 316)
    throw new TypeError(`${what}: the type is not a name such as DatabaseReady`);
  if (!STATUSES.includes(status))
    throw new TypeError(`${what}: the status ${JSON.stringify(status)} is not ${STATUSES.join(', ')}`);
  return { type, status, ...checkedReason(what, reason, message) };
}

/** @throws TypeError */
export function checkedReason(
  what: string,
  reason: string,
  message: string,
): Pick<AuthorCondition, 'reason' | 'message'> {
  if (typeof reason !== 'string' || !REASON.test(reason) || reason.length > 1_024)
    throw new TypeError(`${what}: the reason ${JSON.stringify(reason)} is not one word such as NotFound`);
  // An empty message would say nothing in `kubectl describe`.
  const text = message === '' ? reason : message;
  return { reason, message: text.slice(0, LONGEST).toWellFormed() };
}

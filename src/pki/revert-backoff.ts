/** Backoff for content that another client keeps reverting: Gatehouse restores it with increasing delays. */
import { after, MINUTE, SECOND } from './durations.ts';

export interface RevertHistory {
  readonly content: string;
  readonly writtenAt: Date;
  /** When the content was found missing, within the last {@link WINDOW}. */
  readonly reverts: readonly Date[];
  /** The delay after a write before the next one, in milliseconds; 0 until the object is contended. */
  readonly delayMs: number;
}

export type Attempt =
  /** Store `history` once the write has succeeded. */
  | { readonly kind: 'write'; readonly history: RevertHistory }
  /** Store `history` immediately. `begins`: the object has just become contended. */
  | {
      readonly kind: 'wait';
      readonly until: Date;
      readonly history: RevertHistory;
      readonly begins: boolean;
    };

const WINDOW = 5 * MINUTE;
/** A Helm upgrade or a sync reverts a write once. A reconcile loop never stops. */
const MAX_REVERTS = 10;
const MAX_DELAY = 5 * MINUTE;

export function nextAttempt(history: RevertHistory | undefined, content: string, now: Date): Attempt {
  if (history === undefined)
    return { kind: 'write', history: { content, writtenAt: now, reverts: [], delayMs: 0 } };
  // New content is not a response to a revert, and must not be delayed.
  if (history.content !== content) return { kind: 'write', history: { ...history, content, writtenAt: now } };
  if (isSettled(history, now))
    return { kind: 'write', history: { content, writtenAt: now, reverts: [now], delayMs: 0 } };

  const { delayMs, writtenAt } = history;
  if (delayMs > 0) {
    const until = after(writtenAt, delayMs);
    return now < until
      ? { kind: 'wait', until, history, begins: false }
      : { kind: 'write', history: { ...history, writtenAt: now, delayMs: Math.min(MAX_DELAY, delayMs * 2) } };
  }
  const reverts = [...history.reverts.filter((at) => at > after(now, -WINDOW)), now];
  if (reverts.length <= MAX_REVERTS)
    return { kind: 'write', history: { content, writtenAt: now, reverts, delayMs } };
  const contended = { ...history, reverts, writtenAt: now, delayMs: SECOND };
  return { kind: 'wait', until: after(now, SECOND), history: contended, begins: true };
}

export const settledAt = ({ writtenAt, delayMs }: RevertHistory): Date =>
  after(writtenAt, Math.max(WINDOW, 2 * delayMs));

/** After a clock goes backwards, the time of the latest write is unknown. An extra write is better than a long wait. */
const isSettled = (history: RevertHistory, now: Date): boolean =>
  now < history.writtenAt || now >= settledAt(history);

export const isContended = (history: RevertHistory | undefined): history is RevertHistory =>
  (history?.delayMs ?? 0) > 0;

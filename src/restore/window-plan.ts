/** What comes next for a RestoreWindow: Open → Settling (interim sweep) → Completed or CompletedWithViolations (final sweep). */
import type { RestoreWindow } from '../api/restore-window.ts';
import { windowProblems, windowState, type CloseReason } from './window.ts';

export interface SweepTimes {
  /**
   * How long after the close an admitted write may still arrive, in milliseconds: the API server stores a request up to
   * its own timeout after admission allowed it.
   */
  readonly settleMs: number;
  /** How often an unclean result is looked at again when no watch said that something changed, in milliseconds. */
  readonly recheckMs: number;
}

export type WindowPlan =
  | { readonly kind: 'refuse'; readonly problems: readonly string[] }
  | { readonly kind: 'open'; readonly until: Date }
  | { readonly kind: 'close'; readonly at: Date; readonly reason: CloseReason }
  | { readonly kind: 'sweep'; readonly interim: boolean }
  | { readonly kind: 'wait'; readonly until: Date }
  | { readonly kind: 'done' };

/**
 * @param changed whether something that the last report depends on has changed since: a target appeared, say.
 */
export function planWindow(
  window: RestoreWindow,
  now: Date,
  changed: boolean,
  times: SweepTimes,
): WindowPlan {
  const { openedAt, closedAt } = window.status ?? {};
  const problems = windowProblems(window);
  if (problems.length > 0 && openedAt === undefined && closedAt === undefined)
    return { kind: 'refuse', problems };

  const state = windowState(window, now);
  if (state.kind === 'open') {
    // Spoilt by an edit while it was open: what it has let in by then is swept all the same.
    return problems.length > 0
      ? { kind: 'close', at: now, reason: 'Manual' }
      : { kind: 'open', until: state.until };
  }
  // Not the time in its spec: that may have been moved into the past just now, and what was let in until then is under way.
  if (closedAt === undefined) return { kind: 'close', at: now, reason: state.reason };
  return planSweep(window, new Date(closedAt), now, changed, times);
}

function planSweep(
  { status }: RestoreWindow,
  closedAt: Date,
  now: Date,
  changed: boolean,
  { settleMs, recheckMs }: SweepTimes,
): WindowPlan {
  const settledAt = new Date(closedAt.getTime() + settleMs);
  const last = status?.lastSweep;
  if (last === undefined || new Date(last.startedAt) < closedAt)
    return { kind: 'sweep', interim: now < settledAt };
  if (last.interim) {
    if (now >= settledAt) return { kind: 'sweep', interim: false };
    return changed ? { kind: 'sweep', interim: true } : { kind: 'wait', until: settledAt };
  }
  if (status?.phase === 'Completed') return { kind: 'done' };
  const recheckAt = new Date(new Date(last.finishedAt).getTime() + recheckMs);
  return changed || now >= recheckAt ? { kind: 'sweep', interim: false } : { kind: 'wait', until: recheckAt };
}

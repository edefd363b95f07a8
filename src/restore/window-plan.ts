/** What comes next for a RestoreWindow: Open → Settling (interim sweep) → Completed or CompletedWithViolations (final sweep). */
import type { RestoreWindow } from '../api/restore-window.ts';
import type { SourceActivity } from './detector.ts';
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

/** What the source of a window is doing. Undefined for windows without a source, and while it is unknown. */
export type SourceState =
  | {
      readonly kind: 'known';
      readonly activity: SourceActivity;
      /** As it says itself. */
      readonly phase: string;
      /** Since when it has not changed, or has said that all is written; undefined while it is busy. */
      readonly quietSince: Date | undefined;
    }
  | { readonly kind: 'gone'; readonly since: Date };

/** Observations besides the window itself. */
export interface Seen {
  /** Whether something that the last report depends on has changed since: a target appeared, say. */
  readonly changed: boolean;
  readonly source?: SourceState | undefined;
}

/** A source that was deleted may still be writing for a moment, in milliseconds. */
const GONE_MS = 60_000;

export type WindowPlan =
  | { readonly kind: 'refuse'; readonly problems: readonly string[] }
  | { readonly kind: 'open'; readonly until: Date }
  | { readonly kind: 'close'; readonly at: Date; readonly reason: CloseReason }
  /** A sweep that began before `notBefore` tells nothing. */
  | { readonly kind: 'sweep'; readonly interim: boolean; readonly notBefore: Date }
  | { readonly kind: 'wait'; readonly until: Date }
  | { readonly kind: 'done' };

export function planWindow(window: RestoreWindow, now: Date, seen: Seen, times: SweepTimes): WindowPlan {
  const { openedAt, closedAt } = window.status ?? {};
  const problems = windowProblems(window);
  if (problems.length > 0 && openedAt === undefined && closedAt === undefined)
    return { kind: 'refuse', problems };

  const state = windowState(window, now);
  if (state.kind === 'open') {
    // Spoilt by an edit while it was open: what it has let in by then is swept all the same.
    if (problems.length > 0) return { kind: 'close', at: now, reason: 'Manual' };
    return planOpen(window, now, state.until, seen.source);
  }
  // Not the time in its spec: that may have been moved into the past just now, and what was let in until then is under way.
  if (closedAt === undefined) return { kind: 'close', at: now, reason: state.reason };
  return planSweep(window, new Date(closedAt), now, seen.changed, times);
}

function planOpen(
  { spec, status }: RestoreWindow,
  now: Date,
  until: Date,
  source: SourceState | undefined,
): WindowPlan {
  if (source === undefined) return { kind: 'open', until };
  const closes = spec.closeWithSource !== false;
  if (source.kind === 'gone') {
    const closeAt = new Date(source.since.getTime() + GONE_MS);
    if (!closes) return { kind: 'open', until };
    return now >= closeAt
      ? { kind: 'close', at: now, reason: 'SourceDeleted' }
      : { kind: 'open', until: earlier(closeAt, until) };
  }
  const { activity, quietSince } = source;
  if (closes && (activity === 'settling' || activity === 'over'))
    return { kind: 'close', at: now, reason: 'SourceInactive' };
  // It may be busy with volumes for hours after the last object: what is there by then can be looked at.
  if (status?.openedAt === undefined || quietSince === undefined) return { kind: 'open', until };
  const last = status.lastSweep;
  if (last !== undefined && new Date(last.startedAt) >= quietSince) return { kind: 'open', until };
  return now >= quietSince
    ? { kind: 'sweep', interim: true, notBefore: quietSince }
    : { kind: 'open', until: earlier(quietSince, until) };
}

const earlier = (a: Date, b: Date): Date => (a < b ? a : b);

const MOST_RECHECK_MS = 3_600_000;

/** Whether owners may have come since, or a person has approved what was only shown. */
function hasLinksToMake({ spec, status }: Pick<RestoreWindow, 'spec' | 'status'>): boolean {
  const items = status?.relink?.items ?? [];
  return items.some(
    ({ result }) =>
      result === 'OwnerMissing' ||
      result === 'OwnerTerminating' ||
      result === 'Failed' ||
      (result === 'WouldLink' && spec.sweep?.approved === true),
  );
}

function planSweep(
  { spec, status }: RestoreWindow,
  closedAt: Date,
  now: Date,
  changed: boolean,
  { settleMs, recheckMs }: SweepTimes,
): WindowPlan {
  const settledAt = new Date(closedAt.getTime() + settleMs);
  const last = status?.lastSweep;
  if (now >= settledAt && (last === undefined || last.interim || new Date(last.startedAt) < closedAt))
    return { kind: 'sweep', interim: false, notBefore: settledAt };
  if (last === undefined || new Date(last.startedAt) < closedAt)
    return { kind: 'sweep', interim: true, notBefore: closedAt };
  if (last.interim)
    return changed ? { kind: 'sweep', interim: true, notBefore: now } : { kind: 'wait', until: settledAt };
  if (status?.phase === 'Completed' && !hasLinksToMake({ spec, status })) return { kind: 'done' };
  const finishedAt = new Date(last.finishedAt);
  // Check violations less often the longer they stay unrepaired.
  const wait = Math.min(
    MOST_RECHECK_MS,
    Math.max(recheckMs, (finishedAt.getTime() - closedAt.getTime()) / 10),
  );
  const recheckAt = new Date(finishedAt.getTime() + wait);
  if (changed) return { kind: 'sweep', interim: false, notBefore: now };
  return now >= recheckAt
    ? { kind: 'sweep', interim: false, notBefore: recheckAt }
    : { kind: 'wait', until: recheckAt };
}

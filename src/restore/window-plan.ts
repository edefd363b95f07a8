/** Open → Settling (interim sweep) → Completed or CompletedWithViolations (final sweep). */
import type { RestoreWindow } from '../api/restore-window.ts';
import type { SourceActivity } from './detector.ts';
import { isHeld, mayBePaused, windowProblems, windowState, type CloseReason } from './window.ts';

export interface SweepTimes {
  /** How long after the close the API server may still store an admitted write: its request timeout. */
  readonly settleMs: number;
  readonly recheckMs: number;
}

/** Undefined for windows without a source, and while the state is unknown. */
export type SourceState =
  | {
      readonly kind: 'known';
      readonly activity: SourceActivity;
      readonly phase: string;
      /** Since when it has not changed, or has written everything; undefined while it is busy. */
      readonly quietSince: Date | undefined;
    }
  | { readonly kind: 'gone'; readonly since: Date };

const SOURCE_GONE_WAIT_MS = 60_000;

type WindowPlan =
  | { readonly kind: 'refuse'; readonly problems: readonly string[] }
  | { readonly kind: 'open'; readonly until: Date }
  | { readonly kind: 'close'; readonly at: Date; readonly reason: CloseReason }
  /** The result of a sweep that began before `notBefore` does not count. */
  | { readonly kind: 'sweep'; readonly interim: boolean; readonly notBefore: Date }
  | { readonly kind: 'wait'; readonly until: Date }
  | { readonly kind: 'hold' | 'release' }
  | { readonly kind: 'done' };

export function planWindow(
  window: RestoreWindow,
  now: Date,
  seen: { readonly changed: boolean; readonly source?: SourceState | undefined },
  times: SweepTimes,
): WindowPlan {
  const { openedAt, closedAt } = window.status ?? {};
  const problems = windowProblems(window);
  if (problems.length > 0 && openedAt === undefined && closedAt === undefined)
    return window.status?.phase === 'Refused' && isHeld(window)
      ? { kind: 'release' }
      : { kind: 'refuse', problems };

  // Also a window that has closed before a leader saw it: replicas may have deferred checks for it.
  if (closedAt === undefined && !isHeld(window) && window.metadata.deletionTimestamp === undefined)
    return { kind: 'hold' };
  const state = windowState(window, now);
  if (state.kind === 'open') {
    // An edit made the open window invalid. Close it, so that the sweep checks the writes that it admitted.
    if (problems.length > 0) return { kind: 'close', at: now, reason: 'Manual' };
    return planOpen(window, now, state.until, seen.source);
  }
  // Close now, not at the time in the spec: an edit may have moved that into the past, and recently admitted writes are
  // still pending.
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
    const closeAt = new Date(source.since.getTime() + SOURCE_GONE_WAIT_MS);
    if (closes && now >= closeAt) return { kind: 'close', at: now, reason: 'SourceDeleted' };
    return { kind: 'open', until: closes ? earlier(closeAt, until) : until };
  }
  const { activity, quietSince } = source;
  if (closes && (activity === 'settling' || activity === 'over'))
    return { kind: 'close', at: now, reason: 'SourceInactive' };
  // The source may be busy with volumes for hours after the last object. An interim sweep checks the existing objects.
  if (status?.openedAt === undefined || quietSince === undefined) return { kind: 'open', until };
  const last = status.lastSweep;
  if (last !== undefined && new Date(last.startedAt) >= quietSince) return { kind: 'open', until };
  return now >= quietSince
    ? { kind: 'sweep', interim: true, notBefore: quietSince }
    : { kind: 'open', until: earlier(quietSince, until) };
}

const earlier = (a: Date, b: Date): Date => (a < b ? a : b);

const MAX_RECHECK_MS = 3_600_000;

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

const isComplete = (status: RestoreWindow['status']): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === 'SweepComplete' && is === 'True') === true;

function planSweep(
  window: RestoreWindow,
  closedAt: Date,
  now: Date,
  changed: boolean,
  { settleMs, recheckMs }: SweepTimes,
): WindowPlan {
  const { spec, status } = window;
  const settledAt = new Date(closedAt.getTime() + settleMs);
  const last = status?.lastSweep;
  if (now >= settledAt && (last === undefined || last.interim || new Date(last.startedAt) < closedAt))
    return { kind: 'sweep', interim: false, notBefore: settledAt };
  if (last === undefined || new Date(last.startedAt) < closedAt)
    return { kind: 'sweep', interim: true, notBefore: closedAt };
  if (last.interim)
    return changed ? { kind: 'sweep', interim: true, notBefore: now } : { kind: 'wait', until: settledAt };
  if (isHeld(window) && isComplete(status) && !mayBePaused(window)) return { kind: 'release' };
  if (status?.phase === 'Completed' && !hasLinksToMake({ spec, status })) return { kind: 'done' };
  const finishedAt = new Date(last.finishedAt);
  // Check violations less often the longer they stay unrepaired.
  const age = finishedAt.getTime() - closedAt.getTime();
  const wait = Math.min(MAX_RECHECK_MS, Math.max(recheckMs, age / 10));
  const recheckAt = new Date(finishedAt.getTime() + wait);
  if (changed) return { kind: 'sweep', interim: false, notBefore: now };
  return now >= recheckAt
    ? { kind: 'sweep', interim: false, notBefore: recheckAt }
    : { kind: 'wait', until: recheckAt };
}

/** RestoreWindows that are open, or whose restore has left violations. */
import type { RestoreWindow } from '../../../../api/restore-window.ts';
import { counted } from '../../../../json/counted.ts';
import { windowState } from '../../../../restore/window.ts';
import { summaryOf, type WindowSummary } from '../../../restore/window-report.ts';
import { unreadOf, valueOf, type Reading } from '../../read-cluster/reading.ts';
import type { Judged, Listing, Problems } from './attention.ts';

/** Windows that are open, settling or have violations, newest first. */
export interface RestoreWindowsPart extends Listing<WindowSummary> {
  /** The number of all windows. */
  readonly total: number;
}

/** The leader closes an expired window within seconds. */
const OVERDUE_MS = 60_000;

export function restoreWindowsPart(
  windows: Reading<readonly RestoreWindow[]>,
  now: Date,
): Judged<RestoreWindowsPart> {
  const all = valueOf(windows) ?? [];
  const shown = all.filter((window) => isShown(window, now)).toSorted((a, b) => sinceOf(b) - sinceOf(a));
  return {
    part: {
      unread: unreadOf('RestoreWindows', windows),
      items: shown.map(summaryOf),
      total: all.length,
    },
    problems: shown.flatMap((window) => problemsOf(window, now)),
  };
}

const sinceOf = ({ metadata, status }: RestoreWindow): number =>
  new Date(status?.openedAt ?? metadata.creationTimestamp ?? 0).getTime();

function isShown(window: RestoreWindow, now: Date): boolean {
  const phase = window.status?.phase;
  if (phase === undefined) return windowState(window, now).kind === 'open';
  return phase !== 'Completed' && phase !== 'Refused';
}

function problemsOf({ metadata, spec, status }: RestoreWindow, now: Date): Problems {
  const { name = '' } = metadata;
  const object = `RestoreWindow ${name}`;
  if (status?.phase === 'CompletedWithViolations') {
    const { total = 0 } = status.violations ?? {};
    const message = `the restore has left ${counted(total, 'violation')}`;
    return [{ object, message, command: `gatehouse restore status ${name}` }];
  }
  const isOverdue = new Date(spec.expiresAt).getTime() + OVERDUE_MS < now.getTime();
  if (status?.phase !== 'Open' || !isOverdue) return [];
  return [{ object, message: 'it has expired, but the leader has not closed it: check the leader' }];
}

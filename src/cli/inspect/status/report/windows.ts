/** RestoreWindows that somebody should know of: open ones, and those whose restore left something broken. */
import type { RestoreWindow } from '../../../../api/restore-window.ts';
import { windowState } from '../../../../restore/window.ts';
import { summaryOf, type WindowSummary } from '../../../restore/report/status-report.ts';
import { unreadOf, valueOf, type Reading, type Unread } from '../reading.ts';
import type { Attention, Judged } from './attention.ts';

export interface RestoreWindowsPart {
  readonly unread: readonly Unread[];
  /** Those that are open, settling or unclean, newest first. */
  readonly items: readonly WindowSummary[];
  /** How many there are in all. */
  readonly total: number;
}

/** The leader closes a window within seconds. */
const PATIENCE_MS = 60_000;

export function restoreWindowsPart(
  windows: Reading<readonly RestoreWindow[]>,
  now: Date,
): Judged<RestoreWindowsPart> {
  const all = valueOf(windows) ?? [];
  const concerning = all
    .filter((window) => isConcerning(window, now))
    .toSorted((a, b) => sinceOf(b) - sinceOf(a));
  return {
    part: {
      unread: unreadOf('RestoreWindows', windows),
      items: concerning.map(summaryOf),
      total: all.length,
    },
    attention: concerning.flatMap((window) => attentionOf(window, now)),
  };
}

const sinceOf = ({ metadata, status }: RestoreWindow): number =>
  new Date(status?.openedAt ?? metadata.creationTimestamp ?? 0).getTime();

function isConcerning(window: RestoreWindow, now: Date): boolean {
  switch (window.status?.phase) {
    case 'Open':
    case 'Settling':
    case 'CompletedWithViolations':
      return true;
    case undefined:
      return windowState(window, now).kind === 'open';
    case 'Completed':
    case 'Refused':
      return false;
  }
}

function attentionOf(window: RestoreWindow, now: Date): readonly Attention[] {
  const { metadata, status } = window;
  const { name = '' } = metadata;
  const attention = (message: string): readonly Attention[] => [
    { part: 'restoreWindows', object: `RestoreWindow ${name}`, message },
  ];
  if (status?.phase === 'CompletedWithViolations') {
    const { total = 0 } = status.violations ?? {};
    return attention(`the restore left ${total} violations: gatehouse restore status ${name} lists them`);
  }
  const end = new Date(window.spec.expiresAt).getTime();
  if (status?.phase === 'Open' && end + PATIENCE_MS < now.getTime())
    return attention('its time is over and no leader has closed it: look who leads');
  return [];
}

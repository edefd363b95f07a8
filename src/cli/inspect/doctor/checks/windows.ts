/** Whether checks wait for a restore that is long over. */
import type { RestoreWindow } from '../../../../api/restore-window.ts';
import type { Evidence } from '../evidence.ts';
import { ok, orElse, problem, warning, type Finding } from '../finding.ts';
import { judgeLook } from '../look.ts';

const CHECK = 'restore-windows';
/** What a detector gives a restore, if it says nothing else; in hours. */
const LONG_H = 6;
/** The leader closes a window within seconds. */
const OVERDUE_MS = 5 * 60_000;
const HOUR_MS = 3_600_000;

export const checkWindows = ({ windows, now }: Pick<Evidence, 'windows' | 'now'>): readonly Finding[] =>
  judgeLook(CHECK, windows, (all) => {
    const open = all.filter(({ status }) => status?.closedAt === undefined && status?.phase !== 'Refused');
    return orElse(
      open.flatMap((window) => judge(window, now)),
      ok(
        CHECK,
        open.length === 0 ? 'no RestoreWindow is open' : `${open.length} open, none of them for long`,
      ),
    );
  });

function judge({ metadata, spec, status }: RestoreWindow, now: Date): readonly Finding[] {
  const name = metadata.name ?? '';
  const next = `gatehouse restore status ${name}; when the restore is over: gatehouse restore close ${name}`;
  const overdueMs = now.getTime() - Date.parse(spec.expiresAt);
  if (overdueMs > OVERDUE_MS)
    return [
      problem(
        CHECK,
        `"${name}" should have ended at ${spec.expiresAt}, and nobody has closed it`,
        'see the check leader',
      ),
    ];
  const since = status?.openedAt ?? metadata.creationTimestamp;
  const hours = since === undefined ? 0 : (now.getTime() - Date.parse(since)) / HOUR_MS;
  return hours > LONG_H
    ? [
        warning(
          CHECK,
          `"${name}" is open for ${Math.floor(hours)} h: some checks wait until ${spec.expiresAt}`,
          next,
        ),
      ]
    : [];
}

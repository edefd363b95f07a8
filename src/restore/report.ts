/** The report of a sweep as it stands in a RestoreWindow's status. */
import type { RestoreWindowStatus, Violation } from '../api/restore-window.ts';

/** An object in etcd is limited to 1.5 MiB, and a person reads the first page: the rest is a number. */
const LISTED = 50;

export interface SweepResult {
  readonly startedAt: Date;
  readonly finishedAt: Date;
  readonly interim: boolean;
  readonly objectsScanned: number;
  readonly violations: readonly Violation[];
  /** Kinds that could not be read, each with the reason. A sweep with any of them is never clean. */
  readonly unreadable: readonly string[];
}

/** @param open whether the window was still open when the sweep was made */
export function toSweepStatus(
  result: SweepResult,
  open = false,
): Required<Pick<RestoreWindowStatus, 'phase' | 'lastSweep' | 'violations'>> {
  const { violations, interim, unreadable } = result;
  const clean = violations.length === 0 && unreadable.length === 0;
  return {
    phase: open ? 'Open' : interim ? 'Settling' : clean ? 'Completed' : 'CompletedWithViolations',
    lastSweep: {
      startedAt: result.startedAt.toISOString(),
      finishedAt: result.finishedAt.toISOString(),
      objectsScanned: result.objectsScanned,
      interim,
    },
    violations: { total: violations.length, items: violations.toSorted(byPlace).slice(0, LISTED) },
  };
}

function byPlace(a: Violation, b: Violation): number {
  const place = ({ policy, object, field }: Violation) =>
    [policy, object.kind, object.namespace ?? '', object.name, field].join('\u0000');
  const [first, second] = [place(a), place(b)];
  return first < second ? -1 : first > second ? 1 : 0;
}

/** The life of a RestoreWindow, judged from the object and the time alone. */
import type { RestoreWindow, RestoreWindowSpec, RestoreWindowStatus } from '../api/restore-window.ts';
import { isAmong, principalProblems, type Requester } from '../api/principals.ts';

/** The kind and namespace of a write: a window covers some places and not others. */
export interface Place {
  /** Empty for the core group. */
  readonly group: string;
  readonly resource: string;
  /** Undefined for cluster-scoped objects. */
  readonly namespace: string | undefined;
}

export type WindowState =
  { readonly kind: 'open'; readonly until: Date } | { readonly kind: 'closed'; readonly reason: CloseReason };

export type CloseReason = NonNullable<RestoreWindowStatus['closeReason']>;

/** No window defers longer than this, in milliseconds, whatever it says. */
export const LONGEST_WINDOW_MS = 24 * 3_600_000;

/** Labels that backup tools put on what they restore: a window with one of them comes from a backup. */
const RESTORED_LABELS = ['velero.io/restore-name', 'velero.io/backup-name'];

/**
 * Open from its creation until it is closed by hand or expires, whichever comes first; once closed it stays closed, so a
 * window with a `closedAt` in its status cannot be opened again by moving `expiresAt`.
 */
export function windowState(window: RestoreWindow, now: Date): WindowState {
  const { spec, status } = window;
  if (status?.closedAt !== undefined) return { kind: 'closed', reason: status.closeReason ?? 'Manual' };
  if (window.metadata.deletionTimestamp !== undefined) return { kind: 'closed', reason: 'Manual' };
  const until = endOf(window);
  // An invalid time opens nothing.
  if (!(now < until)) return { kind: 'closed', reason: 'Expired' };
  if (spec.close === true) return { kind: 'closed', reason: closedBy(window) };
  return { kind: 'open', until };
}

/** A restore that was over before its detector saw it gets a window that was closed from the beginning. */
function closedBy({ spec, status }: RestoreWindow): CloseReason {
  return spec.source?.type === 'Detector' && status?.openedAt === undefined ? 'SourceInactive' : 'Manual';
}

function endOf({ metadata, spec }: RestoreWindow): Date {
  const latest = new Date(metadata.creationTimestamp ?? NaN).getTime() + LONGEST_WINDOW_MS;
  const end = new Date(spec.expiresAt).getTime();
  return new Date(Number.isNaN(latest) ? end : Math.min(end, latest));
}

/** The open window in which the requester restores what is at this place: besides live evidence, the only reason to defer a check. */
export function openWindowFor(
  windows: Iterable<RestoreWindow>,
  requester: Requester,
  place: Place,
  now: Date,
): RestoreWindow | undefined {
  for (const window of windows) {
    if (windowState(window, now).kind !== 'open' || windowProblems(window).length > 0) continue;
    if (isAmong(window.spec.principals, requester) && reaches(window.spec, place)) return window;
  }
  return undefined;
}

/** Whether the window covers the place. */
export function reaches({ match }: RestoreWindowSpec, { group, resource, namespace }: Place): boolean {
  const { resources = [], namespaces } = match ?? {};
  const isKind = resources.some(
    (kind) => ['*', group].includes(kind.apiGroup ?? '') && ['*', resource].includes(kind.resource),
  );
  if (resources.length > 0 && !isKind) return false;
  const { include = [], exclude = [] } = namespaces ?? {};
  if (include.length > 0 && (namespace === undefined || !include.includes(namespace))) return false;
  return namespace === undefined || !exclude.includes(namespace);
}

/** What is wrong with a window beyond its schema; empty when it may open. */
export function windowProblems({ metadata, spec }: RestoreWindow): readonly string[] {
  const { source, principals, expiresAt } = spec;
  const defersNothing = source?.type === 'Rollback' || source?.type === 'Startup';
  const restored = RESTORED_LABELS.filter((label) => metadata.labels?.[label] !== undefined);
  return [
    ...restored.map(
      (label) =>
        `metadata.labels["${label}"]: a window that comes from a backup stays closed; create a new one`,
    ),
    ...(principals.length === 0 && !defersNothing ? ['spec.principals: name who restores'] : []),
    ...(principals.length > 0 && defersNothing ? [`spec.principals: a ${source.type} defers nothing`] : []),
    ...principalProblems(principals, 'spec.principals'),
    ...(Number.isNaN(new Date(expiresAt).getTime())
      ? [`spec.expiresAt: "${expiresAt}" is not a time (RFC 3339)`]
      : []),
  ];
}

/** The life of a RestoreWindow, judged from the object and the time alone. */
import type { Principal, RestoreWindow, RestoreWindowStatus } from '../api/restore-window.ts';

/** Who asks: the part of an admission request's `userInfo` that identifies. */
export interface Requester {
  readonly username: string;
  readonly groups: readonly string[];
}

export type WindowState =
  { readonly kind: 'open'; readonly until: Date } | { readonly kind: 'closed'; readonly reason: CloseReason };

export type CloseReason = NonNullable<RestoreWindowStatus['closeReason']>;

/**
 * Open from its creation until it is closed by hand or expires, whichever comes first; once closed it stays closed, so a
 * window with a `closedAt` in its status cannot be opened again by moving `expiresAt`.
 */
export function windowState(window: RestoreWindow, now: Date): WindowState {
  const { spec, status } = window;
  if (status?.closedAt !== undefined) return { kind: 'closed', reason: status.closeReason ?? 'Manual' };
  if (window.metadata.deletionTimestamp !== undefined) return { kind: 'closed', reason: 'Manual' };
  const expiresAt = new Date(spec.expiresAt);
  // A time that cannot be read opens nothing.
  if (!(now < expiresAt)) return { kind: 'closed', reason: 'Expired' };
  if (spec.close === true) return { kind: 'closed', reason: 'Manual' };
  return { kind: 'open', until: expiresAt };
}

/** The open window that names the requester as a restorer: the deferral's only ground. Labels of objects never count. */
export function openWindowFor(
  windows: Iterable<RestoreWindow>,
  requester: Requester,
  now: Date,
): RestoreWindow | undefined {
  for (const window of windows) {
    if (windowState(window, now).kind !== 'open' || windowProblems(window).length > 0) continue;
    if (window.spec.principals.some((principal) => isNamedBy(principal, requester))) return window;
  }
  return undefined;
}

/** Exactly one of user and group counts; a principal with both or neither names nobody. */
function isNamedBy({ user, group }: Principal, requester: Requester): boolean {
  if (user !== undefined && group !== undefined) return false;
  if (user !== undefined) return user === requester.username;
  return group !== undefined && requester.groups.includes(group);
}

/** Groups that everybody, or every service account, is in: a window for them would switch the checks off for all. */
const EVERYBODY = new Set(['system:authenticated', 'system:unauthenticated', 'system:serviceaccounts', '*']);

/** What is wrong with a window's spec beyond its schema; empty when it may open. */
export function windowProblems({ spec }: RestoreWindow): readonly string[] {
  const problems = spec.principals.flatMap(({ user, group }, index) => {
    const where = `spec.principals[${index}]`;
    if ((user === undefined) === (group === undefined)) return [`${where}: give either user or group`];
    const name = user ?? group ?? '';
    return EVERYBODY.has(name)
      ? [`${where}: ${name} is not one restorer but everybody; name the one that restores`]
      : [];
  });
  return Number.isNaN(new Date(spec.expiresAt).getTime())
    ? [...problems, `spec.expiresAt: "${spec.expiresAt}" is not a time (RFC 3339)`]
    : problems;
}

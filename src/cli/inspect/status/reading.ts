/** What was read of a part of the cluster, or why it was not: nobody may read everything, and not everything is installed. */
import { ApiError } from '../../../kube/api-error.ts';
import { sentenceOf } from '../../../json/error-message.ts';

export type UnreadReason = 'Forbidden' | 'NotInstalled' | 'Failed';

export type Reading<T> =
  | { readonly kind: 'read'; readonly value: T }
  | { readonly kind: 'unread'; readonly reason: UnreadReason; readonly message: string };

/** A part of the report that could not be read, for people and programs. */
export interface Unread {
  /** E.g. `Secret gatehouse-system/gatehouse-authority` or `AdmissionPolicies`. */
  readonly what: string;
  readonly reason: UnreadReason;
  readonly message: string;
}

/** Never throws: what the API server says no to is an answer, too. */
export async function tryToRead<T>(read: () => Promise<T>): Promise<Reading<T>> {
  try {
    return { kind: 'read', value: await read() };
  } catch (error) {
    return { kind: 'unread', reason: reasonOf(error), message: sentenceOf(error) };
  }
}

function reasonOf(error: unknown): UnreadReason {
  if (!(error instanceof ApiError)) return 'Failed';
  if (error.code === 403) return 'Forbidden';
  return error.code === 404 ? 'NotInstalled' : 'Failed';
}

export const unreadOf = (what: string, reading: Reading<unknown>): readonly Unread[] =>
  reading.kind === 'read' ? [] : [{ what, reason: reading.reason, message: reading.message }];

export const valueOf = <T>(reading: Reading<T>): T | undefined =>
  reading.kind === 'read' ? reading.value : undefined;

const UNREAD = {
  Forbidden: (what, message) => `you may not read ${what}: ${message}`,
  NotInstalled: (what) =>
    `${what}: this cluster has no such kind; kubectl apply -k deploy installs Gatehouse`,
  Failed: (what, message) => `could not read ${what}: ${message}`,
} as const satisfies Record<UnreadReason, (what: string, message: string) => string>;

/** For people. */
export const describeUnread = ({ what, reason, message }: Unread): string => UNREAD[reason](what, message);

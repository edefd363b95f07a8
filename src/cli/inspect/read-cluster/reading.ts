/** What was read of a part of the cluster, or why it could not be read. Other parts continue. */
import { ApiError } from '../../../kube/api-error.ts';
import type { KubeClient, ListOptions } from '../../../kube/client.ts';
import { type NamedRef, type Resource } from '../../../kube/object.ts';
import { groupResourceName, type KubeObject } from '../../../json/kube-object.ts';
import { messageWithCauses } from '../../../json/abort.ts';
import { APPLY_MANIFESTS } from '../../deploy-manifests.ts';

export interface Permission {
  readonly verb: string;
  readonly resource: string;
  /** Undefined: in all namespaces, or cluster-scoped. */
  readonly namespace?: string | undefined;
}

export type UnreadReason = 'Forbidden' | 'NotInstalled' | 'Failed';

export type Unreadable = { readonly kind: 'unread'; readonly message: string } & (
  | { readonly reason: 'Forbidden'; readonly permission: Permission }
  | { readonly reason: Exclude<UnreadReason, 'Forbidden'> }
);

export type Reading<T> = { readonly kind: 'read'; readonly value: T } | Unreadable;

export const read = <T>(value: T): Reading<T> => ({ kind: 'read', value });

/** Never throws. @param permission that the read needs */
export async function tryToRead<T>(permission: Permission, call: () => Promise<T>): Promise<Reading<T>> {
  try {
    return read(await call());
  } catch (error) {
    return unreadable(permission, error);
  }
}

export function unreadable(permission: Permission, error: unknown): Unreadable {
  const message = messageWithCauses(error);
  const code = error instanceof ApiError ? error.code : undefined;
  if (code === 403) return { kind: 'unread', reason: 'Forbidden', message, permission };
  return { kind: 'unread', reason: code === 404 ? 'NotInstalled' : 'Failed', message };
}

export const valueOf = <T>(reading: Reading<T>): T | undefined =>
  reading.kind === 'read' ? reading.value : undefined;

export const orEmpty = <T>(reading: Reading<readonly T[]>): Reading<readonly T[]> =>
  reading.kind === 'unread' && reading.reason === 'NotInstalled' ? read([]) : reading;

export const mapReading = <T, U>(reading: Reading<T>, change: (value: T) => U): Reading<U> =>
  reading.kind === 'read' ? read(change(reading.value)) : reading;

/** One failed list fails all: the result would look complete. */
export const joinReadings = <T>(lists: readonly Reading<readonly T[]>[]): Reading<readonly T[]> =>
  lists.find(({ kind }) => kind === 'unread') ?? read(lists.flatMap((one) => valueOf(one) ?? []));

export const presentAmong = <T>(readings: readonly Reading<T | undefined>[]): Reading<readonly T[]> =>
  joinReadings(readings.map((reading) => mapReading(reading, (one) => (one === undefined ? [] : [one]))));

/** Reads concurrently: the results have the names of the calls. */
export async function readAll<Calls extends object>(
  calls: Calls,
): Promise<{ readonly [Name in keyof Calls]: Awaited<Calls[Name]> }> {
  const results = Object.entries(calls).map(async ([name, call]) => [name, await call] as const);
  return Object.fromEntries(await Promise.all(results)) as { [Name in keyof Calls]: Awaited<Calls[Name]> };
}

export type Reader = ReturnType<typeof createReader>;

export function createReader(client: Pick<KubeClient, 'get' | 'listAll'>, timeoutMs?: number) {
  return {
    get: <T extends KubeObject>(resource: Resource, ref: NamedRef): Promise<Reading<T | undefined>> =>
      tryToRead(permissionTo('get', resource, ref.namespace), () =>
        client.get<T>(resource, ref, { timeoutMs }),
      ),
    list: <T extends KubeObject>(
      resource: Resource,
      options: Pick<ListOptions, 'namespace' | 'labelSelector' | 'fieldSelector' | 'metadataOnly'> = {},
    ): Promise<Reading<readonly T[]>> =>
      tryToRead(
        permissionTo('list', resource, options.namespace),
        async () => (await client.listAll<T>(resource, { ...options, timeoutMs })).items,
      ),
  };
}

const permissionTo = (
  verb: string,
  resource: Pick<Resource, 'group' | 'resource'>,
  namespace?: string,
): Permission => ({
  verb,
  resource: groupResourceName(resource),
  namespace,
});

export interface Unread {
  readonly what: string;
  readonly reason: UnreadReason;
  readonly message: string;
}

export const unreadOf = (what: string, reading: Reading<unknown>): readonly Unread[] =>
  reading.kind === 'read' ? [] : [{ what, reason: reading.reason, message: reading.message }];

export function describeUnread({ what, reason, message }: Unread): string {
  return {
    Forbidden: `permission to read ${what} is missing: ${message}`,
    NotInstalled: `${what}: the kind is not installed; install Gatehouse with ${APPLY_MANIFESTS}`,
    Failed: `could not read ${what}: ${message}`,
  }[reason];
}

export const PARTS = [
  'leader',
  'authority',
  'servingCerts',
  'servedCerts',
  'injectionTargets',
  'admissionPolicies',
  'restoreWindows',
  'userControllers',
] as const;

export interface Attention {
  readonly part: (typeof PARTS)[number];
  readonly object: string;
  readonly message: string;
  readonly command?: string | undefined;
}

export type Problems = readonly Omit<Attention, 'part'>[];

export interface Judged<Part> {
  readonly part: Part;
  readonly problems: Problems;
}

export interface Listing<Row> {
  readonly unread: readonly Unread[];
  readonly items: readonly Row[];
}

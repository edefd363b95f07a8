import type { RestoreWindow, RestoreWindowSpec, RestoreWindowStatus } from '../api/restore-window.ts';
import {
  ACCOUNTS_OF,
  isPrincipal,
  principalProblems,
  type Principal,
  type Requester,
} from '../api/principals.ts';
import type { QuiesceRule } from '../api/quiesce.ts';
import { GROUP } from '../api/group.ts';
import { tryParsePath } from '../json/field-path.ts';
import { stringifyJson } from '../json/json.ts';
import { isLabelValue, isQualifiedName } from '../json/kube-object.ts';

export interface WriteTarget {
  readonly group: string;
  readonly resource: string;
  readonly namespace: string | undefined;
}

type WindowState =
  { readonly kind: 'open'; readonly until: Date } | { readonly kind: 'closed'; readonly reason: CloseReason };

export type CloseReason = NonNullable<RestoreWindowStatus['closeReason']>;

/** Keeps a deleted window until the writes that it deferred are swept. Only Gatehouse removes it. */
export const SWEEP_FINALIZER = 'gatehouse.dev/sweep';

export const isHeld = ({ metadata }: Pick<RestoreWindow, 'metadata'>): boolean =>
  metadata.finalizers?.includes(SWEEP_FINALIZER) === true;

export const QUIESCED = 'Quiesced';
export const UNDONE = 'Undone';

/** Even without a condition: the writes of restorers are paused before the leader sees the window. */
export function mayBePaused({ spec, status }: Pick<RestoreWindow, 'spec' | 'status'>): boolean {
  const found = status?.conditions?.find(({ type }) => type === QUIESCED);
  return found === undefined
    ? (spec.quiesce ?? []).length > 0 && status?.phase !== 'Refused'
    : found.reason !== UNDONE;
}

export function withHold(window: RestoreWindow, held: boolean): RestoreWindow {
  const others = window.metadata.finalizers?.filter((name) => name !== SWEEP_FINALIZER) ?? [];
  const finalizers = held ? [...others, SWEEP_FINALIZER] : others;
  return { ...window, metadata: { ...window.metadata, finalizers } };
}

/** In milliseconds. Windows close after this time, even if the spec contains a later one. */
export const MAX_WINDOW_MS = 24 * 3_600_000;

/** Labels that backup tools set on restored objects: a window with such a label comes from a backup. */
const RESTORED_LABELS = ['velero.io/restore-name', 'velero.io/backup-name'];

/** A closed window stays closed: moving `expiresAt` does not open it again. */
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

/** A restore that ended before its detector saw it gets a window that is closed from the start. */
function closedBy({ spec, status }: RestoreWindow): CloseReason {
  return spec.source?.type === 'Detector' && status?.openedAt === undefined ? 'SourceInactive' : 'Manual';
}

function endOf({ metadata, spec }: RestoreWindow): Date {
  const latest = new Date(metadata.creationTimestamp ?? NaN).getTime() + MAX_WINDOW_MS;
  const end = new Date(spec.expiresAt).getTime();
  return new Date(Number.isNaN(latest) ? end : Math.min(end, latest));
}

/** Apart from live evidence, they are the only reason to defer a check. */
export function openWindowsFor(
  windows: Iterable<RestoreWindow>,
  requester: Requester,
  target: WriteTarget,
  now: Date,
): readonly RestoreWindow[] {
  return [...windows].filter(
    (window) =>
      windowState(window, now).kind === 'open' &&
      windowProblems(window).length === 0 &&
      isPrincipal(restorersIn(window), requester) &&
      covers(window.spec, target),
  );
}

/** From lax to strict. */
export const RELINK_MODES = ['Link', 'Report', 'Off'] as const;
export type RelinkMode = (typeof RELINK_MODES)[number];

/** Links that need approval are only reported until a user approves them. */
export function relinkMode({ sweep = {} }: Pick<RestoreWindowSpec, 'sweep'>): RelinkMode {
  const { relinkOwners = 'Link', requireApprovalToLink = false, approved = false } = sweep;
  return relinkOwners === 'Link' && requireApprovalToLink && !approved ? 'Report' : relinkOwners;
}

export function covers({ match }: RestoreWindowSpec, { group, resource, namespace }: WriteTarget): boolean {
  const { resources = [], namespaces } = match ?? {};
  const ofGroup = resources.filter(({ apiGroup }) => ['*', group].includes(apiGroup));
  const isKind = ofGroup.some((kind) => ['*', resource].includes(kind.resource));
  if (resources.length > 0 && !isKind) return false;
  const { include = [], exclude = [] } = namespaces ?? {};
  if (include.length > 0 && (namespace === undefined || !include.includes(namespace))) return false;
  return namespace === undefined || !exclude.includes(namespace);
}

export function windowProblems({ metadata, spec }: RestoreWindow): readonly string[] {
  const { source, principals, expiresAt } = spec;
  const defersNothing = source?.type === 'Rollback' || source?.type === 'Startup';
  const restored = RESTORED_LABELS.filter((label) => metadata.labels?.[label] !== undefined);
  return [
    ...restored.map(
      (label) =>
        `metadata.labels["${label}"]: a window that comes from a backup stays closed; create a new one`,
    ),
    ...(principals.length === 0 && !defersNothing ? ['spec.principals: add at least one restorer'] : []),
    ...(principals.length > 0 && defersNothing ? [`spec.principals: a ${source.type} defers nothing`] : []),
    ...principalProblems(principals, 'spec.principals'),
    ...quiesceProblems(spec.quiesce),
    ...(Number.isNaN(new Date(expiresAt).getTime())
      ? [`spec.expiresAt: "${expiresAt}" is not a time (RFC 3339)`]
      : []),
  ];
}

export const hasFinalReport = ({ status }: Pick<RestoreWindow, 'status'>): boolean =>
  status?.phase === 'Completed' || status?.phase === 'Refused';

/** What a window may defer depends on what its opener may open. The mutating webhook records both. */
export const OPENED_BY = 'gatehouse.dev/opened-by';
/** `Cluster`: the opener may open windows for the whole cluster. Absent: only in namespaces that the window names. */
export const OPENER_SCOPE = 'gatehouse.dev/opener-scope';

/** A window that was stored without the webhook lacks the record, so it applies only to its namespaces. */
export const isClusterWide = ({ metadata, spec }: RestoreWindow): boolean =>
  spec.source?.type === 'Detector' || metadata.annotations?.[OPENER_SCOPE] === 'Cluster';

/** Whether the restore may write there, so that a missing object may still come back. */
export function mayRestoreIn(window: RestoreWindow, namespace: string | undefined): boolean {
  const { include = [] } = window.spec.match?.namespaces ?? {};
  return isClusterWide(window) || include.length === 0 || include.some((one) => one === namespace);
}

/** In namespaces: the opener, and the service accounts there. */
export function restorersIn(window: RestoreWindow): readonly Principal[] {
  const { metadata, spec } = window;
  if (isClusterWide(window)) return spec.principals;
  const namespaces = spec.match?.namespaces?.include ?? [];
  const opener = metadata.annotations?.[OPENED_BY];
  return spec.principals.filter(({ user, group }) =>
    namespaces.some(
      (namespace) =>
        group === `${ACCOUNTS_OF}${namespace}` ||
        (user !== undefined && (user === opener || user.startsWith(`system:serviceaccount:${namespace}:`))),
    ),
  );
}

export const openedForCluster = (window: RestoreWindow): RestoreWindow => ({
  ...window,
  metadata: {
    ...window.metadata,
    annotations: { ...window.metadata.annotations, [OPENER_SCOPE]: 'Cluster' },
  },
});

/** For workloads: zero replicas. */
export const DEFAULT_PATH = 'spec.replicas';

export function quiesceProblems(rules: readonly QuiesceRule[] = []): readonly string[] {
  return rules.flatMap(({ path = DEFAULT_PATH, value = 0, matchLabels = {} }, index) => {
    const at = `spec.quiesce[${index}]`;
    const odd = Object.entries(matchLabels).find(
      ([key, text]) => !isQualifiedName(key) || !isLabelValue(text),
    );
    return [
      ...(odd === undefined ? [] : [`${at}.matchLabels: "${odd.join('=')}" is not a label`]),
      ...fieldProblems(path, value, matchLabels).map((problem) => `${at}.${problem}`),
    ];
  });
}

/** In characters, as JSON. Each paused object also records the value. */
const MAX_VALUE_LENGTH = 4_096;

function fieldProblems(
  path: string,
  value: unknown,
  matchLabels: NonNullable<QuiesceRule['matchLabels']>,
): readonly string[] {
  const keys = tryParsePath(path)?.concrete?.keys ?? [];
  const [top, map, key] = keys;
  if (value === null) return ['value: null is not a value: write another one'];
  if (stringifyJson(value).length > MAX_VALUE_LENGTH)
    return [`value: it has more than ${MAX_VALUE_LENGTH} characters as JSON: write a shorter one`];
  if (top === 'spec' && keys.length > 1 && keys.every((one) => typeof one === 'string')) return [];
  const isMark = top === 'metadata' && (map === 'annotations' || map === 'labels') && keys.length === 3;
  if (!isMark || typeof key !== 'string' || !isQualifiedName(key))
    return [`path: "${path}" is not a field of spec such as spec.paused, an annotation or a label`];
  if (key.startsWith(`${GROUP}/`)) return [`path: Gatehouse itself uses "${key}": use another key`];
  if (map === 'labels' && Object.hasOwn(matchLabels, key))
    return [`path: matchLabels selects by "${key}": use another label`];
  const isText = typeof value === 'string' && (map === 'annotations' || isLabelValue(value));
  return isText ? [] : [`value: ${map} need a string such as "true"`];
}

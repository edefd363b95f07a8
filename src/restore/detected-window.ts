/** Builds the RestoreWindow for a restore that a detector sees, and decides when the restore must have one. */
import { hash } from 'node:crypto';
import { EXCLUDE_FROM_BACKUP_LABEL, GROUP, VERSION } from '../api/group.ts';
import type { RestoreDetector } from '../api/restore-detector.ts';
import type { RestoreWindow, RestoreWindowSpec } from '../api/restore-window.ts';
import { objectKey, toTimestamp } from '../json/kube-object.ts';
import { pick } from '../json/json.ts';
import { timesOf, type RestoreSource, isEnabled, isTrusted, readSource } from './detector.ts';
import { isPrincipal, type Requester } from '../api/principals.ts';
import { MAX_LEADERLESS_MS } from './rollback.ts';
import {
  covers,
  SWEEP_FINALIZER,
  type WriteTarget,
  isClusterWide,
  openWindowsFor,
  relinkMode,
} from './window.ts';

export const SOURCE_LABEL = 'gatehouse.dev/source';

/** In one RestoreWindow. A source with more mappings still gets a window, with the first ones. */
const MAX_MAPPINGS = 256;

/** Names don't count, because any user can derive one. Only Gatehouse can create windows of type Detector. */
export function isWindowOf(
  { spec: { source: origin } }: RestoreWindow,
  { metadata }: Pick<RestoreDetector, 'metadata'>,
  { uid }: Pick<RestoreSource, 'uid'>,
): boolean {
  return origin?.type === 'Detector' && origin.detector === metadata.name && origin.ref?.uid === uid;
}

export const hasSameSource = (one: RestoreWindow, { spec: { source } }: RestoreWindow): boolean =>
  source?.detector !== undefined &&
  source.ref?.uid !== undefined &&
  isWindowOf(one, { metadata: { name: source.detector } }, { uid: source.ref.uid });

/** @param isTaken whether a window with this name exists that is not a window of the source */
export function detectedWindow(
  detector: RestoreDetector,
  source: RestoreSource,
  now: Date,
  isTaken: (name: string) => boolean = () => false,
): RestoreWindow {
  const { name: creator = '' } = detector.metadata;
  return {
    apiVersion: `${GROUP}/${VERSION}`,
    kind: 'RestoreWindow',
    metadata: {
      name: detectedName(creator, source.uid, isTaken),
      labels: { [EXCLUDE_FROM_BACKUP_LABEL]: 'true', [SOURCE_LABEL]: toLabelValue(creator) },
      finalizers: [SWEEP_FINALIZER], // the webhook that adds it may be missing
    },
    spec: specOf(detector, source, now),
  };
}

function specOf(detector: RestoreDetector, source: RestoreSource, now: Date): RestoreWindowSpec {
  const { watch, principals, operations = ['CREATE', 'UPDATE'], quiesce } = detector.spec;
  const { kind, namespace, createdAt } = source;
  const namespaceMapping = Object.fromEntries(Object.entries(source.namespaceMapping).slice(0, MAX_MAPPINGS));
  return {
    source: {
      type: 'Detector',
      detector: detector.metadata.name ?? '',
      ref: {
        ...pick(source, 'apiVersion', 'kind', 'name', 'uid'),
        resource: watch.resource,
        ...(namespace === undefined ? {} : { namespace }),
        ...(Number.isNaN(createdAt.getTime()) ? {} : { createdAt: toTimestamp(createdAt) }),
      },
    },
    principals,
    match: { operations, ...namespacesOf(detector, source) },
    ...(quiesce === undefined ? {} : { quiesce }),
    ...(Object.keys(namespaceMapping).length === 0 ? {} : { namespaceMapping }),
    expiresAt: toTimestamp(endOf(detector, source, now)),
    reason: `${kind} ${objectKey(source)}`,
  };
}

function namespacesOf(
  { spec }: RestoreDetector,
  { namespace, targetNamespace }: RestoreSource,
): Pick<NonNullable<RestoreWindowSpec['match']>, 'namespaces'> {
  if (spec.scope?.mode !== 'SourceNamespace') return {};
  // A user who may write a source in one namespace must not open another namespace by naming it.
  const trusted = spec.namespaces.includes('*') ? namespace : (targetNamespace ?? namespace);
  return trusted === undefined ? {} : { namespaces: { include: [trusted] } };
}

/** A source that claims to start in the future counts as started now: otherwise its window would never end. */
function endOf(detector: RestoreDetector, { startedAt }: RestoreSource, now: Date): Date {
  return new Date(Math.min(startedAt.getTime(), now.getTime()) + timesOf(detector).maxDurationMs);
}

/** Clocks of backup tools may lag, so the creation counts too. */
function isYounger({ createdAt, startedAt }: RestoreSource, { metadata }: RestoreDetector): boolean {
  const installedAt = new Date(metadata.creationTimestamp ?? 0);
  return createdAt >= installedAt || startedAt >= installedAt;
}

/**
 * Whether checks are deferred before the source has a window; false for a restore that is older than its detector.
 * Every such source gets a {@link dueWindow} later, so that all deferred writes are swept.
 */
export function isDeferred(
  detector: RestoreDetector,
  source: RestoreSource,
  requester: Requester,
  target: WriteTarget,
  now: Date,
): boolean {
  return (
    source.activity === 'active' &&
    now < endOf(detector, source, now) &&
    isYounger(source, detector) &&
    isPrincipal(detector.spec.principals, requester) &&
    covers(specOf(detector, source, now), target)
  );
}

/** `closed`: its writes may have been deferred, and are swept. */
type DueWindow =
  | { readonly kind: 'open' | 'closed' | 'none' }
  /** The source may still become active. */
  | { readonly kind: 'later'; readonly at: Date };

export function dueWindow(detector: RestoreDetector, source: RestoreSource, now: Date): DueWindow {
  const { activity } = source;
  const end = endOf(detector, source, now);
  if (activity === 'active' && now < end) return { kind: 'open' };
  // After a longer absence of the leader, a full sweep covers all restores.
  const isTooLate = now.getTime() >= end.getTime() + MAX_LEADERLESS_MS;
  if (activity === 'new' || isTooLate || !isYounger(source, detector)) return { kind: 'none' };
  return activity === 'unknown' && now < end ? { kind: 'later', at: end } : { kind: 'closed' };
}

/** Names of windows that Gatehouse opens: a window of a user must not be in the way of a restore or a sweep. */
const RESERVED = /-[0-9a-f]{12}$|^(?:rollback|startup)-\d/;

export const isReservedName = (name: string): boolean => RESERVED.test(name);

const DIGITS = 12;
const MAX_NAME_LENGTH = 253;
const MAX_LABEL_LENGTH = 63;

function detectedName(detector: string, uid: string, isTaken: (name: string) => boolean): string {
  const prefix = shortened(detector, MAX_NAME_LENGTH - DIGITS - 1);
  for (let attempt = 0; ; attempt += 1) {
    const seed = attempt === 0 ? uid : `${uid}/${attempt}`;
    const name = `${prefix}-${hash('sha256', seed).slice(0, DIGITS)}`;
    if (!isTaken(name)) return name;
  }
}

/** Label values are shorter than names may be. */
export const toLabelValue = (name: string): string => shortened(name, MAX_LABEL_LENGTH);

/** Neither a name nor a label value ends with a hyphen or a dot. */
const shortened = (name: string, length: number): string => name.slice(0, length).replace(/[-.]+$/, '');

type Evidence = ReturnType<typeof toEvidence>;
type Lists = Readonly<Record<'operations' | 'enforced', readonly string[]>>;

export const evidenceOfWindows = (
  windows: Iterable<RestoreWindow>,
  requester: Requester,
  target: WriteTarget,
  now: Date,
): readonly Evidence[] => openWindowsFor(windows, requester, target, now).map(toEvidence);

/** Whether no other window can defer more. */
export function defersAll(
  { operations, enforced, clusterWide }: Pick<Evidence, 'clusterWide'> & Lists,
  operation: string,
): boolean {
  return clusterWide && operations.includes(operation) && enforced.length === 0;
}

export function detectorsOf(
  detectors: Iterable<RestoreDetector>,
  requester: Requester,
): readonly RestoreDetector[] {
  return [...detectors].filter(
    (detector) => isEnabled(detector) && isPrincipal(detector.spec.principals, requester),
  );
}

/**
 * The windows of restores that have none yet, not counting those in deletion.
 * @param windows all: the window of a source, open or closed, decides instead of the source
 */
export function windowsOfSources(
  detector: RestoreDetector,
  objects: Iterable<object>,
  windows: readonly RestoreWindow[],
  requester: Requester,
  target: WriteTarget,
  now: Date,
): readonly RestoreWindow[] {
  const names = new Set(windows.map(({ metadata }) => metadata.name));
  const present = windows.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  return [...objects]
    .map((object) => readSource(detector, object))
    .filter(
      (source) =>
        isTrusted(detector, source.namespace) &&
        isDeferred(detector, source, requester, target, now) &&
        !present.some((window) => isWindowOf(window, detector, source)),
    )
    .map((source) => detectedWindow(detector, source, now, (name) => names.has(name)));
}

export function toEvidence(window: RestoreWindow) {
  const { metadata, spec } = window;
  const { match, overrides = {} } = spec;
  return {
    window: metadata.name ?? '',
    operations: match?.operations ?? (['CREATE', 'UPDATE'] as const),
    enforced: (['references', 'unique'] as const).filter((check) => overrides[check] === 'Enforce'),
    links: relinkMode(spec) === 'Link',
    clusterWide: isClusterWide(window),
  };
}

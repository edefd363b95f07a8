/** Decides which RestoreWindow reports a violation, so that each one is in one report, or in the audit. */
import type { RestoreDetector } from '../api/restore-detector.ts';
import type { RestoreWindow, Violation } from '../api/restore-window.ts';
import type { GroupResource, ObjectMeta } from '../json/kube-object.ts';
import {
  covers,
  hasFinalReport,
  isClusterWide,
  RELINK_MODES,
  relinkMode,
  type RelinkMode,
} from './window.ts';
import { hash } from 'node:crypto';

interface WrittenMetadata extends CreationMetadata {
  /** Times of later writes, RFC 3339, as far as managedFields show them. A tool that writes managedFields hides its own. */
  readonly changedAt: readonly string[];
  /** Those that changed only labels. */
  readonly labelledAt: readonly string[];
}

interface Written {
  readonly resource: GroupResource;
  readonly written: WrittenMetadata;
}

export interface SweptViolation extends Written {
  readonly violation: Violation;
  readonly isAudited: boolean;
}

/** @param settleMs how long after admission a write may still be stored */
export function createAttribution(
  windows: readonly RestoreWindow[],
  detectors: readonly RestoreDetector[],
  settleMs: number,
) {
  const newestFirst = windows
    .map((window) => knownOf(window, detectors, settleMs))
    .toSorted(
      (a, b) =>
        Number(isBeingDeleted(a)) - Number(isBeingDeleted(b)) ||
        // Otherwise a tenant's window could take violations out of the report of the restore.
        Number(isClusterWide(b.window)) - Number(isClusterWide(a.window)) ||
        b.span.from - a.span.from ||
        (nameOf(a) < nameOf(b) ? -1 : 1),
    );
  const [full, restores] = [newestFirst.filter(isFullSweep), newestFirst.filter((one) => !isFullSweep(one))];
  const attributionKeys = new Set(detectors.flatMap(({ spec }) => spec.attributionLabel?.key ?? []));
  const writer = (object: Written): RestoreWindow | undefined => {
    const found = writerOf(object, restores, attributionKeys);
    // The report of a completed window is final: what is found now is younger.
    return found === undefined || isFinal(found) ? undefined : found.window;
  };
  const reporter = (found: SweptViolation): RestoreWindow | undefined => {
    const own = writer(found);
    if (own !== undefined) return own;
    // The mapping of another restore proves nothing about this object, and no check was deferred for it.
    if (found.violation.reason === 'CrossesNamespaceMapping') return undefined;
    const sweeping = full.find((one) => !isFinal(one));
    if (sweeping !== undefined || found.isAudited) return sweeping?.window;
    return restores.find((one) => !isFinal(one) && isCovered(one, found))?.window;
  };
  return { writer, reporter };
}

/** Its report disappears with it, so another window of the same restore reports. */
const isBeingDeleted = ({ window }: Known): boolean => window.metadata.deletionTimestamp !== undefined;

const nameOf = ({ window }: Known): string => window.metadata.name ?? '';

/** Windows of these types defer nothing. They report what no restore wrote. */
const isFullSweep = ({ window: { spec } }: Known): boolean =>
  spec.source?.type === 'Rollback' || spec.source?.type === 'Startup';

const isFinal = ({ window }: Known): boolean => hasFinalReport(window);

const isCovered = ({ window }: Known, { resource, written: { namespace } }: Written): boolean =>
  covers(window.spec, { ...resource, namespace });

/** Whether the beginning of its restore is known. */
const isDated = ({ spec: { source } }: RestoreWindow): boolean => source?.ref?.createdAt !== undefined;

function writerOf(
  found: Written,
  restores: readonly Known[],
  attributionKeys: ReadonlySet<string>,
): Known | undefined {
  const { labels = {}, creationTimestamp = '', changedAt, labelledAt } = found.written;
  const [created = NaN, ...changes] = [creationTimestamp, ...changedAt].map((time) => Date.parse(time));
  const writes = [created, ...changes, ...labelledAt.map((time) => Date.parse(time))];
  const labelled = restores.filter(
    ({ window, label, span }) =>
      label !== undefined &&
      labels[label.key] === label.value &&
      // A copy of a restored object has its labels too, but is created later.
      created <= span.until &&
      // If the tool cannot change an older object, it only labels it.
      (!isDated(window) || created >= span.from || changes.some((time) => isWithin(span, time))),
  );
  const [first] = labelled;
  if (first !== undefined) {
    // A window that ends takes its report with it. Those that end are last.
    const lasting = labelled.filter((one) => isBeingDeleted(first) || !isBeingDeleted(one));
    return lasting.find(({ span }) => isWithin(span, created)) ?? first;
  }
  const isLabelled = Object.keys(labels).some((key) => attributionKeys.has(key));
  const open = restores.filter((one) => {
    if (!isCovered(one, found)) return false;
    if (one.label === undefined) return writes.some((time) => isWithin(one.span, time));
    // Velero labels no Namespace, and policies may remove labels.
    return !isLabelled && isWithin(one.span, created);
  });
  return open.find(({ label }) => label === undefined) ?? open[0];
}

export interface CreationMetadata {
  readonly creationTimestamp?: string | undefined;
  readonly labels?: ObjectMeta['labels'] | undefined;
  /** Absent for cluster-scoped objects. */
  readonly namespace?: string | undefined;
}

/** In milliseconds since 1970. */
interface Span {
  readonly from: number;
  readonly until: number;
}

export const isWithin = ({ from, until }: Span, time: number): boolean => time >= from && time <= until;

const MAX_LABEL_LENGTH = 63;

/**
 * Windows that were open at the creation and cover the place, or whose restore the label names. This is attribution, not
 * proof: any user can set a label, and others create objects during a window. `settleMs`: how long after admission a
 * write may still be stored.
 */
export function restoringWindows(
  windows: readonly RestoreWindow[],
  detectors: readonly RestoreDetector[],
  settleMs: number,
): (made: CreationMetadata, resource?: GroupResource) => readonly RestoreWindow[] {
  const known = windows.map((window) => knownOf(window, detectors, settleMs));
  return ({ creationTimestamp = '', labels = {}, namespace }, resource) => {
    const created = Date.parse(creationTimestamp);
    return known
      .filter(({ window, span, label }) => {
        if (label !== undefined && Object.hasOwn(labels, label.key) && labels[label.key] === label.value)
          return true;
        const isCovered = resource === undefined || covers(window.spec, { ...resource, namespace });
        return isCovered && isWithin(span, created);
      })
      .map(({ window }) => window);
  };
}

export type Known = ReturnType<typeof knownOf>;

export const knownOf = (window: RestoreWindow, detectors: readonly RestoreDetector[], settleMs: number) => ({
  window,
  span: spanOf(window, settleMs),
  label: labelOf(window, detectors),
});

export interface SweepMode {
  /** `Off`: it neither links nor reports them. */
  readonly mode: RelinkMode;
  /** Another window, with a stricter mode. */
  readonly heldBy?: string;
  /** False: a user who may restore only in namespaces may have forged the record, and lacks the owners' permissions. */
  readonly mayBlock?: boolean;
}

/** The strictest mode of all windows of the object. Objects of other windows are left to their sweeps. */
export function sweepMode({ metadata }: RestoreWindow, belongsTo: readonly RestoreWindow[]): SweepMode {
  const own = belongsTo.find((window) => window.metadata.name === metadata.name);
  if (own === undefined) return { mode: 'Off' };
  const strictnessOf = ({ spec }: RestoreWindow) => RELINK_MODES.indexOf(relinkMode(spec));
  const strictest = belongsTo.reduce((a, b) => (strictnessOf(b) > strictnessOf(a) ? b : a), own);
  const mode = relinkMode(strictest.spec);
  const mayBlock = belongsTo.every((one) => one.spec.principals.length === 0 || isClusterWide(one));
  return strictest === own ? { mode, mayBlock } : { mode, mayBlock, heldBy: strictest.metadata.name ?? '' };
}

/** Until the last deferred write can be stored. Writes are also deferred before the source has a window. */
export function spanOf({ metadata, spec: { source }, status }: RestoreWindow, settleMs: number): Span {
  const evidentAt = source?.type === 'Detector' ? source.ref?.createdAt : undefined;
  const starts = [metadata.creationTimestamp, status?.openedAt, evidentAt]
    .map((time) => Date.parse(time ?? ''))
    .filter((time) => !Number.isNaN(time));
  const closed = Date.parse(status?.closedAt ?? '');
  // Creation timestamps have whole seconds.
  const from = Math.floor(Math.min(...starts) / 1_000) * 1_000;
  return { from, until: Number.isNaN(closed) ? Infinity : closed + settleMs };
}

/** Undefined without a detector, or if its tool sets no label. */
function labelOf({ spec: { source } }: RestoreWindow, detectors: readonly RestoreDetector[]) {
  // A user may write any name into a Manual window.
  if (source?.type !== 'Detector') return undefined;
  const detector = detectors.find(({ metadata }) => metadata.name === source.detector);
  const { attributionLabel: label } = detector?.spec ?? {};
  const name = source.ref?.name;
  if (label === undefined || name === undefined) return undefined;
  return { key: label.key, value: label.value === 'VeleroName' ? veleroName(name) : name };
}

/** Velero truncates a name that is too long and appends the start of its digest (pkg/label GetValidName). */
export function veleroName(name: string): string {
  return name.length <= MAX_LABEL_LENGTH
    ? name
    : `${name.slice(0, MAX_LABEL_LENGTH - 6)}${hash('sha256', name).slice(0, 6)}`;
}

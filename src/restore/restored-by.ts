/** Determines which restores created an object, from the object itself. */
import type { RestoreDetector } from '../api/restore-detector.ts';
import type { GroupResource, ObjectMeta } from '../json/kube-object.ts';
import type { RestoreWindow } from '../api/restore-window.ts';
import { covers, RELINK_MODES, relinkMode, type RelinkMode } from './window.ts';

/** The metadata that shows when and where an object was created, and which restore its labels name. */
export interface CreationMetadata {
  readonly creationTimestamp?: string | undefined;
  readonly labels?: ObjectMeta['labels'] | undefined;
  /** Absent for cluster-scoped objects. */
  readonly namespace?: string | undefined;
}

/** The label with which a backup tool marks what a restore writes. */
export interface AttributionLabel {
  readonly key: string;
  readonly value: string;
}

/** In milliseconds since 1970. */
interface Span {
  /** When the first write that this window deferred may have been created. */
  readonly since: number;
  readonly from: number;
  readonly until: number;
}

/** The first deferred write of a restore opens its window, and the API server waits so long for a webhook at most. */
const LONGEST_CALL_MS = 30_000;

/**
 * The windows that were open at one of the times of an object. If none was: those that may have opened while the object was
 * being admitted.
 *
 * @param timesOf in milliseconds since 1970
 */
export function openAt<Known extends { readonly span: Span }>(
  windows: readonly Known[],
  timesOf: (window: Known) => readonly number[],
): readonly Known[] {
  const after = (start: 'from' | 'since') =>
    windows.filter((one) => timesOf(one).some((time) => time >= one.span[start] && time <= one.span.until));
  const open = after('from');
  return open.length > 0 ? open : after('since');
}

/** Maximum length of a label value. */
const MAX_LABEL_LENGTH = 63;

/**
 * The windows to which an object belongs: it was created while they were open, at a place that they cover, or it has the
 * label of their restore. This is attribution, not proof: any user can set a label, and other users also create objects
 * during a window.
 *
 * @param settleMs how long after admission the API server may still store a write
 * @param digest hexadecimal SHA-256
 */
export function restoringWindows(
  windows: readonly RestoreWindow[],
  detectors: readonly RestoreDetector[],
  settleMs: number,
  digest: (text: string) => string,
): (made: CreationMetadata, resource?: GroupResource) => readonly RestoreWindow[] {
  const known = windows.map((window) => ({
    window,
    span: spanOf(window, settleMs),
    label: labelOf(window, detectors, digest),
  }));
  return ({ creationTimestamp = '', labels = {}, namespace }, resource) => {
    const created = Date.parse(creationTimestamp);
    const covering = known.filter(
      ({ window }) => resource === undefined || covers(window.spec, { ...resource, namespace }),
    );
    const open = new Set(openAt(covering, () => [created]));
    const isLabelled = ({ label }: (typeof known)[number]) =>
      label !== undefined && Object.hasOwn(labels, label.key) && labels[label.key] === label.value;
    return known.filter((one) => isLabelled(one) || open.has(one)).map(({ window }) => window);
  };
}

/** How the sweep of a window treats the lost owners of an object. */
export interface SweepMode {
  /** `Off`: it neither links nor reports them. */
  readonly mode: RelinkMode;
  /** Another window whose mode is stricter than that of the swept window. */
  readonly heldBy?: string;
}

/**
 * The strictest mode of all windows to which the object belongs. Objects of other windows are left to the sweeps of those
 * windows.
 */
export function sweepMode({ metadata }: RestoreWindow, belongsTo: readonly RestoreWindow[]): SweepMode {
  const own = belongsTo.find((window) => window.metadata.name === metadata.name);
  if (own === undefined) return { mode: 'Off' };
  const strictnessOf = ({ spec }: RestoreWindow) => RELINK_MODES.indexOf(relinkMode(spec));
  const strictest = belongsTo.reduce((a, b) => (strictnessOf(b) > strictnessOf(a) ? b : a), own);
  const mode = relinkMode(strictest.spec);
  return strictest === own ? { mode } : { mode, heldBy: strictest.metadata.name ?? '' };
}

/** From the opening of the window until its last admitted write can be stored. */
export function spanOf({ metadata, spec, status }: RestoreWindow, settleMs: number): Span {
  const starts = [metadata.creationTimestamp, status?.openedAt]
    .map((time) => Date.parse(time ?? ''))
    .filter((time) => !Number.isNaN(time));
  const closed = Date.parse(status?.closedAt ?? '');
  // Creation timestamps have whole seconds.
  const from = Math.floor(Math.min(...starts) / 1_000) * 1_000;
  const isDetected = spec.source?.type === 'Detector'; // before any other window opens, nothing is deferred for it
  return {
    since: isDetected ? from - LONGEST_CALL_MS : from,
    from,
    until: Number.isNaN(closed) ? Infinity : closed + settleMs,
  };
}

/** Undefined if the window has no detector, or its tool labels nothing. */
export function labelOf(
  { spec: { source } }: RestoreWindow,
  detectors: readonly RestoreDetector[],
  digest: (text: string) => string,
): AttributionLabel | undefined {
  // A user may write any name into a Manual window.
  if (source?.type !== 'Detector') return undefined;
  const detector = detectors.find(({ metadata }) => metadata.name === source.detector);
  const { attributionLabel: label } = detector?.spec ?? {};
  const name = source.ref?.name;
  if (label === undefined || name === undefined) return undefined;
  return { key: label.key, value: label.value === 'VeleroName' ? veleroName(name, digest) : name };
}

/**
 * Velero truncates a name that is too long for a label and appends the start of its digest (pkg/label GetValidName).
 */
export function veleroName(name: string, digest: (text: string) => string): string {
  return name.length <= MAX_LABEL_LENGTH
    ? name
    : `${name.slice(0, MAX_LABEL_LENGTH - 6)}${digest(name).slice(0, 6)}`;
}

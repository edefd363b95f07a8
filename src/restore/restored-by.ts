/** Determines which restores created an object, from the object itself. */
import { hash } from 'node:crypto';

import type { RestoreDetector } from '../api/restore-detector.ts';
import type { GroupResource, ObjectMeta } from '../json/kube-object.ts';
import type { RestoreWindow } from '../api/restore-window.ts';
import { covers, RELINK_MODES, relinkMode, type RelinkMode } from './window.ts';

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
}

/** The strictest mode of all windows of the object. Objects of other windows are left to their sweeps. */
export function sweepMode({ metadata }: RestoreWindow, belongsTo: readonly RestoreWindow[]): SweepMode {
  const own = belongsTo.find((window) => window.metadata.name === metadata.name);
  if (own === undefined) return { mode: 'Off' };
  const strictnessOf = ({ spec }: RestoreWindow) => RELINK_MODES.indexOf(relinkMode(spec));
  const strictest = belongsTo.reduce((a, b) => (strictnessOf(b) > strictnessOf(a) ? b : a), own);
  const mode = relinkMode(strictest.spec);
  return strictest === own ? { mode } : { mode, heldBy: strictest.metadata.name ?? '' };
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

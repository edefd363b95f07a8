/** Determines which objects a restore created, from the objects themselves. */
import type { RestoreDetector } from '../api/restore-detector.ts';
import type { ObjectMeta } from '../json/kube-object.ts';
import type { RestoreWindow } from '../api/restore-window.ts';

/** The metadata that shows when an object was created, and which restore its labels name. */
export interface CreationMetadata {
  readonly creationTimestamp?: string | undefined;
  readonly labels?: ObjectMeta['labels'] | undefined;
}

/** Maximum length of a label value. */
const MAX_LABEL_LENGTH = 63;

/**
 * Whether an object was created while one of the windows was open, or has the label of its restore. This is
 * attribution, not proof: any user can set a label, and other users also create objects during a window.
 *
 * @param settleMs how long after admission the API server may still store a write
 * @param digest hexadecimal SHA-256
 */
export function restoredBy(
  windows: readonly RestoreWindow[],
  detectors: readonly RestoreDetector[],
  settleMs: number,
  digest: (text: string) => string,
): (made: CreationMetadata) => boolean {
  const spans = windows.map((window) => spanOf(window, settleMs));
  const labels = windows.flatMap((window) => labelOf(window, detectors, digest) ?? []);
  return ({ creationTimestamp = '', labels: own = {} }) => {
    const created = Date.parse(creationTimestamp);
    return (
      spans.some(({ from, until }) => created >= from && created <= until) ||
      labels.some(({ key, value }) => Object.hasOwn(own, key) && own[key] === value)
    );
  };
}

function spanOf(
  { metadata, status }: RestoreWindow,
  settleMs: number,
): { readonly from: number; readonly until: number } {
  const starts = [metadata.creationTimestamp, status?.openedAt]
    .map((time) => Date.parse(time ?? ''))
    .filter((time) => !Number.isNaN(time));
  const closed = Date.parse(status?.closedAt ?? '');
  // Creation timestamps have whole seconds.
  const from = Math.floor(Math.min(...starts) / 1_000) * 1_000;
  return { from, until: Number.isNaN(closed) ? Infinity : closed + settleMs };
}

function labelOf(
  { spec }: RestoreWindow,
  detectors: readonly RestoreDetector[],
  digest: (text: string) => string,
): { readonly key: string; readonly value: string } | undefined {
  const detector = detectors.find(({ metadata }) => metadata.name === spec.source?.detector);
  const { attributionLabel: label } = detector?.spec ?? {};
  const name = spec.source?.ref?.name;
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

/** What the open windows of a restorer, or its restores without a window yet, allow. */
import type { RestoreDetector } from '../api/restore-detector.ts';
import type { RestoreWindow } from '../api/restore-window.ts';
import { detectedWindow, isDeferred, isWindowOf } from './detected-window.ts';
import { isEnabled, isTrusted, readSource } from './detector.ts';
import { isPrincipal, type Requester } from '../api/principals.ts';
import { isClusterWide, openWindowsFor, relinkMode, type WriteTarget } from './window.ts';

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

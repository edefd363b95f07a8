/** What an open window, or a restore without a window yet, allows its restorer. */
import type { RestoreDetector } from '../api/restore-detector.ts';
import type { RestoreWindow } from '../api/restore-window.ts';
import { detectedWindow, isActiveRestore } from './detected-window.ts';
import { isEnabled, isTrusted, readSource } from './detector.ts';
import { isPrincipal, type Requester } from '../api/principals.ts';
import { openWindowFor, type WriteTarget } from './window.ts';

export interface Evidence {
  readonly window: string;
  readonly operations: readonly ('CREATE' | 'UPDATE' | 'DELETE')[];
  readonly enforced: readonly ('references' | 'unique')[];
}

export function evidenceOfWindows(
  windows: Iterable<RestoreWindow>,
  requester: Requester,
  target: WriteTarget,
  now: Date,
): Evidence | undefined {
  const window = openWindowFor(windows, requester, target, now);
  return window === undefined ? undefined : toEvidence(window);
}

/** The enabled detectors that list the requester as a principal. */
export function detectorsOf(
  detectors: Iterable<RestoreDetector>,
  requester: Requester,
): readonly RestoreDetector[] {
  return [...detectors].filter(
    (detector) => isEnabled(detector) && isPrincipal(detector.spec.principals, requester),
  );
}

/**
 * @param objects the objects of the detector's kind, in any namespace
 * @param isClosed whether the window of the source is known to be closed: such a source is no evidence, and the next
 *   source is tried
 */
export function evidenceOfSources(
  detector: RestoreDetector,
  objects: Iterable<object>,
  requester: Requester,
  target: WriteTarget,
  now: Date,
  digest: (text: string) => string,
  isClosed: (window: string) => boolean = () => false,
): Evidence | undefined {
  for (const object of objects) {
    const source = readSource(detector, object);
    if (!isTrusted(detector, source.namespace)) continue;
    if (!isActiveRestore(detector, source, requester, target, now)) continue;
    const evidence = toEvidence(detectedWindow(detector, source, digest));
    if (!isClosed(evidence.window)) return evidence;
  }
  return undefined;
}

function toEvidence({ metadata, spec: { match, overrides = {} } }: RestoreWindow): Evidence {
  return {
    window: metadata.name ?? '',
    operations: match?.operations ?? ['CREATE', 'UPDATE'],
    enforced: (['references', 'unique'] as const).filter((check) => overrides[check] === 'Enforce'),
  };
}

/** Builds the RestoreWindow for a restore that a detector sees. Deterministic: every replica builds the same window. */
import { EXCLUDE_FROM_BACKUP_LABEL, GROUP, VERSION } from '../api/group.ts';
import type { RestoreDetector } from '../api/restore-detector.ts';
import type { RestoreWindow, RestoreWindowSpec } from '../api/restore-window.ts';
import { objectKey, toTimestamp } from '../json/kube-object.ts';
import { pick } from '../json/objects.ts';
import { timesOf, type RestoreSource } from './detector.ts';
import { isPrincipal, type Requester } from '../api/principals.ts';
import { covers, type WriteTarget } from './window.ts';

/** Names the RestoreDetector that created a window. */
export const SOURCE_LABEL = 'gatehouse.dev/source';

/** @param digest hexadecimal SHA-256 */
export function detectedWindow(
  detector: RestoreDetector,
  source: RestoreSource,
  digest: (text: string) => string,
): RestoreWindow {
  const name = detector.metadata.name ?? '';
  return {
    apiVersion: `${GROUP}/${VERSION}`,
    kind: 'RestoreWindow',
    metadata: {
      name: `${name}-${digest(source.uid).slice(0, 12)}`,
      labels: { [EXCLUDE_FROM_BACKUP_LABEL]: 'true', [SOURCE_LABEL]: name },
    },
    spec: specOf(detector, source),
  };
}

function specOf(detector: RestoreDetector, source: RestoreSource): RestoreWindowSpec {
  const { watch, principals, operations = ['CREATE', 'UPDATE'] } = detector.spec;
  const { kind, namespace, namespaceMapping } = source;
  return {
    source: {
      type: 'Detector',
      detector: detector.metadata.name ?? '',
      ref: {
        ...pick(source, 'apiVersion', 'kind', 'name', 'uid'),
        resource: watch.resource,
        ...(namespace === undefined ? {} : { namespace }),
      },
    },
    principals,
    match: { operations, ...namespacesOf(detector, source) },
    ...(Object.keys(namespaceMapping).length === 0 ? {} : { namespaceMapping }),
    expiresAt: toTimestamp(endOf(detector, source)),
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

function endOf(detector: RestoreDetector, { startedAt }: RestoreSource): Date {
  return new Date(startedAt.getTime() + timesOf(detector).maxDurationMs);
}

/** Whether an active source defers checks for the requester before its window exists. */
export function isActiveRestore(
  detector: RestoreDetector,
  source: RestoreSource,
  requester: Requester,
  target: WriteTarget,
  now: Date,
): boolean {
  return (
    source.activity === 'active' &&
    isPrincipal(detector.spec.principals, requester) &&
    now < endOf(detector, source) &&
    covers(specOf(detector, source), target)
  );
}

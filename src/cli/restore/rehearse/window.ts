/** The RestoreWindow that a detector would open for the rehearsed restore. */
import type { RestoreDetector } from '../../../api/restore-detector.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import { ACCOUNTS_OF } from '../../../api/principals.ts';
import { toTimestamp } from '../../../json/kube-object.ts';
import { detectedWindow } from '../../../restore/detected-window.ts';
import { veleroDetector } from '../../../restore/detector.ts';
import { sha256 } from '../../../runtime/restores/restore-evidence.ts';

export interface RestoreOfTool {
  readonly name: string;
  readonly namespace: string;
  readonly namespaceMapping: Readonly<Record<string, string>>;
}

/** Undefined if none of the detectors trusts the namespace of the tool. */
export function windowOf(
  detectors: readonly RestoreDetector[],
  { name, namespace, namespaceMapping }: RestoreOfTool,
  now: Date,
): RestoreWindow | undefined {
  const detector = veleroDetector(detectors, namespace);
  if (detector === undefined) return undefined;
  const source = {
    ...{ name, namespace, namespaceMapping },
    ...{ apiVersion: 'velero.io/v1', kind: 'Restore', uid: 'rehearsal', phase: 'InProgress' },
    ...{ activity: 'active' as const, startedAt: now, createdAt: now },
    ...{ allWritten: false, targetNamespace: undefined },
  };
  const window = detectedWindow(detector, source, now, sha256);
  return { ...window, metadata: { ...window.metadata, creationTimestamp: toTimestamp(now) } };
}

/** The detector that deploy/detectors/velero contains, for Velero in this namespace. */
export const shippedDetector = (namespace: string): RestoreDetector => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'RestoreDetector',
  metadata: { name: 'velero' },
  spec: {
    namespaces: [namespace],
    watch: { apiGroup: 'velero.io', version: 'v1', resource: 'restores' },
    phasePath: 'status.phase',
    activeValues: ['InProgress'],
    principals: [{ group: `${ACCOUNTS_OF}${namespace}` }],
  },
});

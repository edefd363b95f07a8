/** The RestoreDetector of Velero, which exists since 10:00, and its Restores. */
import type { RestoreDetector } from '../../src/api/restore-detector.ts';

export const veleroDetector = (spec: Partial<RestoreDetector['spec']> = {}): RestoreDetector => ({
  metadata: { name: 'velero', generation: 1, creationTimestamp: '2026-11-21T10:00:00Z' },
  spec: {
    watch: { apiGroup: 'velero.io', version: 'v1', resource: 'restores' },
    namespaces: ['velero'],
    phasePath: 'status.phase',
    startPath: 'status.startTimestamp',
    activeValues: ['InProgress'],
    settlingValues: ['Finalizing'],
    terminalValues: ['Completed', 'Failed'],
    progress: { donePath: 'status.progress.itemsRestored', totalPath: 'status.progress.totalItems' },
    namespaceMappingPath: 'spec.namespaceMapping',
    principals: [{ group: 'system:serviceaccounts:velero' }],
    ...spec,
  },
});

export const veleroRestore = (uid: string, status: object, spec: object = {}, namespace = 'velero') => ({
  apiVersion: 'velero.io/v1',
  kind: 'Restore',
  metadata: { namespace, name: uid, uid, creationTimestamp: '2026-11-21T11:00:00Z' },
  spec,
  status,
});

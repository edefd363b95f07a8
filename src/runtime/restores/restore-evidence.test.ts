import { expect, test } from 'vitest';

import type { RestoreQuery } from '../../admission/policy/world.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import { OutsideNamespacesError } from '../../kube/confined.ts';
import { createCluster, NEVER } from '../../../test/support/runtime/fixtures.ts';
import type { Context } from '../context.ts';
import { createRestoreEvidence } from './restore-evidence.ts';

const COVERED = ['gatehouse-system', 'velero'];
const RESTORES = {
  group: 'velero.io',
  version: 'v1',
  resource: 'restores',
  kind: 'Restore',
  namespaced: true,
};
const RESTORE = {
  apiVersion: 'velero.io/v1',
  kind: 'Restore',
  metadata: { namespace: 'velero', name: 'r', uid: 'u1', creationTimestamp: '2026-11-21T11:00:00Z' },
  status: { phase: 'InProgress' },
};
const QUERY: RestoreQuery = {
  userInfo: { username: 'restorer', uid: '', groups: [], extra: {} },
  resource: { group: '', version: 'v1', resource: 'configmaps' },
  namespace: 'velero',
  operation: 'CREATE',
  dryRun: false,
};

const detectorIn = (...namespaces: string[]): RestoreDetector => ({
  metadata: { name: 'velero', creationTimestamp: '2026-11-21T10:00:00Z' },
  spec: {
    watch: { apiGroup: 'velero.io', version: 'v1', resource: 'restores' },
    namespaces,
    phasePath: 'status.phase',
    activeValues: ['InProgress'],
    principals: [{ user: 'restorer' }],
  },
});

/** Velero restores in each namespace that may be read. */
function evidenceWith(detector: RestoreDetector) {
  const { client: memory } = createCluster();
  const listAll = (kind: { readonly resource: string }, { namespace = '' }: { namespace?: string } = {}) => {
    if (kind.resource !== 'restores') return Promise.resolve({ metadata: {}, items: [] });
    if (!COVERED.includes(namespace)) return Promise.reject(new OutsideNamespacesError(namespace));
    const items = namespace === 'velero' ? [RESTORE] : [];
    return Promise.resolve({ metadata: {}, items });
  };
  const context = {
    client: { ...memory, listAll },
    config: { without: [] },
    discovery: { resolve: () => Promise.resolve(RESTORES) },
    namespaces: COVERED,
    serverClock: { now: () => new Date('2026-11-21T12:00:00Z') },
  } as unknown as Context; // the parts that evidence reads
  type Parts = Parameters<typeof createRestoreEvidence>;
  const detectors = { store: { list: () => [detector] } } as unknown as Parts[2];
  const windows = { store: { list: () => [] } } as unknown as Parts[1];
  return createRestoreEvidence(context, windows, detectors, () => Promise.resolve());
}

test('a detector that trusts only a namespace outside of --namespaces gives no evidence, and no error', async () => {
  const { restoreEvidence } = evidenceWith(detectorIn('k8up'));
  expect(await restoreEvidence(QUERY, NEVER)).toBeUndefined();
});

test('a detector that also trusts a namespace outside of --namespaces sees the restores in the others', async () => {
  const { restoreEvidence } = evidenceWith(detectorIn('k8up', 'velero'));
  expect((await restoreEvidence(QUERY, NEVER))?.windows).toHaveLength(1);
});

import { expect, test } from 'vitest';

import type { RestoreQuery } from '../../admission/policy/world.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { OPENED_BY, OPENER_SCOPE } from '../../restore/window.ts';
import { OutsideNamespacesError } from '../../kube/rest.ts';
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
function evidenceWith(detector: RestoreDetector, known: readonly RestoreWindow[] = []) {
  const { client: memory } = createCluster();
  const reads: string[] = [];
  const listAll = (kind: { readonly resource: string }, { namespace = '' }: { namespace?: string } = {}) => {
    reads.push(kind.resource);
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
  const windows = { store: { list: () => known } } as unknown as Parts[1];
  const evidence = createRestoreEvidence(context, windows, detectors, () => Promise.resolve());
  return { ...evidence, reads };
}

test('a detector that trusts only a namespace outside of --namespaces gives no evidence, and no error', async () => {
  const { restoreEvidence } = evidenceWith(detectorIn('k8up'));
  expect(await restoreEvidence(QUERY, NEVER)).toBeUndefined();
});

test('a detector that also trusts a namespace outside of --namespaces sees the restores in the others', async () => {
  const { restoreEvidence } = evidenceWith(detectorIn('k8up', 'velero'));
  expect((await restoreEvidence(QUERY, NEVER))?.windows).toHaveLength(1);
});

test.each<[string, Partial<RestoreWindow>['metadata'], string, readonly string[]]>([
  [
    'a known window for the whole cluster defers everything, without a live read',
    { annotations: { [OPENER_SCOPE]: 'Cluster' } },
    'drill',
    [],
  ],
  [
    'a known window for some namespaces does not: windows and sources are read',
    { annotations: { [OPENED_BY]: 'restorer' } },
    'velero-',
    ['restorewindows', 'restores'],
  ],
])('%s', async (_what, metadata, name, expected) => {
  const known: RestoreWindow = {
    metadata: { name: 'drill', creationTimestamp: '2026-11-21T11:00:00Z', ...metadata },
    spec: {
      principals: [{ user: 'restorer' }],
      expiresAt: '2026-11-21T13:00:00Z',
      match: { namespaces: { include: ['velero'] } },
    },
  };
  const { restoreEvidence, reads, knownRestore } = evidenceWith(detectorIn('velero'), [known]);
  expect(knownRestore(QUERY)?.windows).toHaveLength(1);
  const { windows = [] } = (await restoreEvidence(QUERY, NEVER)) ?? {};
  expect(reads).toEqual(expected);
  expect(windows).toMatchObject([{ window: expect.stringMatching(`^${name}`) as string }]);
});

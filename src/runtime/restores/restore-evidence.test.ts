import { expect, test, beforeEach, describe } from 'vitest';

import type { RestoreQuery } from '../../admission/policy/world.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { OPENED_BY, OPENER_SCOPE } from '../../restore/window.ts';
import { OutsideNamespacesError } from '../../kube/rest.ts';
import { createCluster, NEVER, ApiError, silent } from '../../../test/support/runtime/fixtures.ts';
import { RESTORES } from '../../../test/support/velero-client.ts';
import { veleroDetector, veleroRestore } from '../../../test/support/velero-detector.ts';
import type { Context } from '../context.ts';
import { createRestoreEvidence, createAwaitWindow, createWindowOrAwait } from './restore-evidence.ts';
import { createStore } from '../../kube/store.ts';
import { createListeners } from '../listeners.ts';
import { RESTORE_WINDOWS } from '../resources.ts';

const COVERED = ['gatehouse-system', 'velero'];
const RESTORE = veleroRestore('u1', { phase: 'InProgress' });
const QUERY: RestoreQuery = {
  userInfo: { username: 'restorer', uid: '', groups: [], extra: {} },
  resource: { group: '', version: 'v1', resource: 'configmaps' },
  namespace: 'velero',
  operation: 'CREATE',
  dryRun: false,
};

const detectorIn = (...namespaces: string[]): RestoreDetector =>
  veleroDetector({ namespaces, principals: [{ user: 'restorer' }] });

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

test('a detector sees no restore in a namespace outside of --namespaces, without an error', async () => {
  expect(await evidenceWith(detectorIn('k8up')).restoreEvidence(QUERY, NEVER)).toBeUndefined();
  const { restoreEvidence } = evidenceWith(detectorIn('k8up', 'velero'));
  expect((await restoreEvidence(QUERY, NEVER))?.windows).toHaveLength(1);
});

test.each([
  ['the whole cluster', { [OPENER_SCOPE]: 'Cluster' }, 'drill', []],
  ['some namespaces', { [OPENED_BY]: 'restorer' }, 'velero-', ['restorewindows', 'restores']],
])('with a known window for %s, these are read live: %s', async (_where, annotations, name, expected) => {
  const match = { namespaces: { include: ['velero'] } };
  const known: RestoreWindow = {
    metadata: { name: 'drill', creationTimestamp: '2026-11-21T11:00:00Z', annotations },
    spec: { principals: [{ user: 'restorer' }], expiresAt: '2026-11-21T13:00:00Z', match },
  };
  const { restoreEvidence, reads, knownRestore } = evidenceWith(detectorIn('velero'), [known]);
  expect(knownRestore(QUERY)?.windows).toHaveLength(1);
  const { windows = [] } = (await restoreEvidence(QUERY, NEVER)) ?? {};
  expect(reads).toEqual(expected);
  expect(windows).toMatchObject([{ window: expect.stringMatching(`^${name}`) as string }]);
});

type Source = NonNullable<RestoreWindow['spec']['source']>;

const sourceOf = (uid: string, detector = 'velero'): Source => {
  const ref = { apiVersion: 'v1', kind: 'Restore', resource: 'restores', name: 'r', uid };
  return { type: 'Detector', detector, ref };
};
const windowOf = (name: string, source = sourceOf('u1'), metadata: object = {}): RestoreWindow => ({
  metadata: { ...metadata, name },
  spec: { source, principals: [], expiresAt: '2026-11-21T12:00:00Z', reason: 'Restore velero/r' },
});
const manual = (name: string) => windowOf(name, { type: 'Manual' });
const deleted = { deletionTimestamp: '2026-11-21T11:00:00Z' };

/** A watch without an API server, and timers that only the test ends. */
function watching() {
  const store = createStore<RestoreWindow>();
  const { add, tell } = createListeners<[key: string]>();
  const timers = new Set<() => void>();
  const after = (_ms: number, run: () => void) => {
    timers.add(run);
    return () => void timers.delete(run);
  };
  return {
    awaitWindow: createAwaitWindow({ store, onChange: add }, { after }),
    see: (window: RestoreWindow) => {
      store.set(window.metadata.name ?? '', window);
      tell(window.metadata.name ?? '');
    },
    timers,
    expire: () => {
      for (const run of timers) run();
    },
  };
}

describe('the wait for the leader', () => {
  const pending = async (waiting: Promise<unknown>) =>
    (await Promise.race([waiting, new Promise((resolve) => setImmediate(resolve, 'pending'))])) === 'pending';

  test.each([
    ['another source', windowOf('a', sourceOf('u2'))],
    ['another detector', windowOf('a', sourceOf('u1', 'other'))],
    ['a user, who can derive the name', manual('a')],
    ['this source, in deletion', windowOf('a', sourceOf('u1'), deleted)],
  ])('a window of %s does not count, before and during the wait', async (_what, other) => {
    const { awaitWindow, see } = watching();
    see(other);
    const waiting = awaitWindow(windowOf('a'), NEVER);
    see(other);
    expect(await pending(waiting)).toBe(true);
    see(windowOf('a-2')); // of the source, under another name
    await waiting;
    await expect(awaitWindow(windowOf('a'), NEVER)).resolves.toBeUndefined(); // it is known
  });

  test('without a leader, all requests for one source share one time limit; the next one starts another', async () => {
    const { awaitWindow, timers, expire } = watching();
    const waiting = [1, 2, 3].map(() => awaitWindow(windowOf('a'), NEVER));
    expect(timers.size).toBe(1);
    const failed = Promise.allSettled(waiting);
    expire();
    expect((await failed).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    const message = 'no leader has created the RestoreWindow of Restore velero/r yet';
    await expect(waiting[0]).rejects.toThrow(message);
    expect(timers.size).toBe(0);
    void awaitWindow(windowOf('a'), NEVER);
    expect(timers.size).toBe(1);
  });

  test('over a limit, a request is refused immediately; requests that end make room', async () => {
    const { awaitWindow, see } = watching();
    const all = Array.from({ length: 32 }, (_, index) => windowOf('a', sourceOf(`u${index % 3}`)));
    const waiting = all.map((window) => awaitWindow(window, NEVER));
    await expect(awaitWindow(windowOf('a', sourceOf('u9')), NEVER)).rejects.toThrow('32 requests wait');
    for (const uid of ['u0', 'u1', 'u2']) see(windowOf(uid, sourceOf(uid)));
    await Promise.all(waiting);
    const after = awaitWindow(windowOf('a', sourceOf('u9')), NEVER);
    see(windowOf('b', sourceOf('u9')));
    await after;
  });
});

describe('a process with both roles', () => {
  let waits: number;
  let warnings: number;
  const wait = () => Promise.resolve(void (waits += 1));
  const log = { ...silent, warn: () => void (warnings += 1) };
  beforeEach(() => {
    waits = 0;
    warnings = 0;
  });

  const store = async (...existing: readonly RestoreWindow[]) => {
    const { client, objects } = createCluster();
    const windows = objects<RestoreWindow>(RESTORE_WINDOWS);
    for (const window of existing) windows.add(window);
    await createWindowOrAwait(client, wait, log)(windowOf('a'), NEVER);
    return windows.list().length;
  };

  test('creates the window, unless another replica has created it', async () => {
    expect([await store(), await store(windowOf('a')), waits]).toEqual([1, 1, 0]);
  });

  test.each([
    ['a user', manual('a')],
    ['another source', windowOf('a', sourceOf('u2'))],
    ['this source in deletion', windowOf('a', sourceOf('u1'), deleted)],
  ])('defers nothing if the window of this name is one of %s', async (_what, taken) => {
    await expect(store(taken)).rejects.toThrow('RestoreWindow a belongs to another source');
  });

  test('waits for the leader if only the leader may, and logs it once', async () => {
    const { client } = createCluster({ create: () => Promise.reject(new ApiError(403, 'forbidden')) });
    const storeOrWait = createWindowOrAwait(client, wait, log);
    await storeOrWait(windowOf('a'), NEVER);
    await storeOrWait(windowOf('b', sourceOf('u2')), NEVER);
    expect([waits, warnings]).toEqual([2, 1]);
    const { client: failing } = createCluster({ create: () => Promise.reject(new ApiError(500, 'away')) });
    await expect(createWindowOrAwait(failing, wait, log)(windowOf('a'), NEVER)).rejects.toThrow('away');
  });
});

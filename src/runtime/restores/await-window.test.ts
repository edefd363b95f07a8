import { beforeEach, describe, expect, test } from 'vitest';

import { ApiError, createCluster, NEVER, silent } from '../../../test/support/runtime/fixtures.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { createStore } from '../../kube/store.ts';
import { createListeners } from '../listeners.ts';
import { RESTORE_WINDOWS } from '../resources.ts';
import { createAwaitWindow, createWindowOrAwait } from './restore-evidence.ts';

const windowOf = (
  name: string,
  uid = 'u1',
  metadata: RestoreWindow['metadata'] = {},
  detector = 'velero',
): RestoreWindow => ({
  metadata: { ...metadata, name },
  spec: {
    source: {
      type: 'Detector',
      detector,
      ref: { apiVersion: 'v1', kind: 'Restore', resource: 'restores', name: 'r', uid },
    },
    principals: [],
    expiresAt: '2026-11-21T12:00:00Z',
    reason: 'Restore velero/r',
  },
});
const manual = (name: string): RestoreWindow => ({
  ...windowOf(name),
  spec: { ...windowOf(name).spec, source: { type: 'Manual' } },
});
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

  test('a window that is known is not awaited', async () => {
    const { awaitWindow, see } = watching();
    see(windowOf('a'));
    await expect(awaitWindow(windowOf('a'), NEVER)).resolves.toBeUndefined();
  });

  test.each([
    ['another source', windowOf('a', 'u2')],
    ['another detector', windowOf('a', 'u1', {}, 'other')],
    ['a user, who can derive the name', manual('a')],
    ['this source, in deletion', windowOf('a', 'u1', deleted)],
  ])('a window of %s does not count, before and during the wait', async (_what, other) => {
    const { awaitWindow, see } = watching();
    see(other);
    const waiting = awaitWindow(windowOf('a'), NEVER);
    see(other);
    expect(await pending(waiting)).toBe(true);
    see(windowOf('a'));
    await waiting;
  });

  test('it ends with a window of the source under another name', async () => {
    const { awaitWindow, see } = watching();
    const waiting = awaitWindow(windowOf('a-2'), NEVER);
    see(windowOf('a'));
    await waiting;
  });

  test('without a leader, all requests for one source share one time limit; the next one starts another', async () => {
    const { awaitWindow, timers, expire } = watching();
    const waiting = [1, 2, 3].map(() => awaitWindow(windowOf('a'), NEVER));
    expect(timers.size).toBe(1);
    const failed = Promise.allSettled(waiting);
    expire();
    expect((await failed).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    await expect(waiting[0]).rejects.toThrow(
      'no leader has created the RestoreWindow of Restore velero/r yet',
    );
    expect(timers.size).toBe(0);
    void awaitWindow(windowOf('a'), NEVER);
    expect(timers.size).toBe(1);
  });

  test('it ends with the request', async () => {
    const { awaitWindow } = watching();
    const request = new AbortController();
    const waiting = awaitWindow(windowOf('a'), request.signal);
    request.abort(new Error('the deadline of the request'));
    await expect(waiting).rejects.toThrow('the deadline of the request');
  });

  test('over a limit, a request is refused at once; requests that end make room', async () => {
    const { awaitWindow, see } = watching();
    const waiting = Array.from({ length: 32 }, (_, index) =>
      awaitWindow(windowOf('a', `u${index % 3}`), NEVER),
    );
    await expect(awaitWindow(windowOf('a', 'u9'), NEVER)).rejects.toThrow('32 requests wait');
    for (const uid of ['u0', 'u1', 'u2']) see(windowOf(uid, uid));
    await Promise.all(waiting);
    const after = awaitWindow(windowOf('a', 'u9'), NEVER);
    see(windowOf('b', 'u9'));
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
    ['another source', windowOf('a', 'u2')],
    ['this source in deletion', windowOf('a', 'u1', deleted)],
  ])('defers nothing if the window of this name is one of %s', async (_what, taken) => {
    await expect(store(taken)).rejects.toThrow('RestoreWindow a belongs to another source');
  });

  test('waits for the leader if only the leader may, and says so once', async () => {
    const { client } = createCluster({ create: () => Promise.reject(new ApiError(403, 'forbidden')) });
    const storeOrWait = createWindowOrAwait(client, wait, log);
    await storeOrWait(windowOf('a'), NEVER);
    await storeOrWait(windowOf('b', 'u2'), NEVER);
    expect([waits, warnings]).toEqual([2, 1]);
  });

  test('reports another failure', async () => {
    const { client } = createCluster({ create: () => Promise.reject(new ApiError(500, 'away')) });
    await expect(createWindowOrAwait(client, wait, log)(windowOf('a'), NEVER)).rejects.toThrow('away');
  });
});

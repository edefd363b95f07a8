import { expect, test } from 'vitest';

import { ApiError } from '../../../test/support/runtime/fixtures.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { KubeClient } from '../../kube/client.ts';
import { createStore } from '../../kube/store.ts';
import { createListeners } from '../listeners.ts';
import { createAwaitWindow, createWindowOrAwait } from './await-window.ts';

const signal = new AbortController().signal;
const windowOf = (name: string): RestoreWindow => ({
  metadata: { name },
  spec: { principals: [], expiresAt: '2026-11-21T12:00:00Z' },
});

function watching() {
  const store = createStore<RestoreWindow>();
  const { add, tell } = createListeners<[key: string]>();
  const see = (name: string) => {
    store.set(name, windowOf(name));
    tell(name);
  };
  return { awaitWindow: createAwaitWindow({ store, onChange: add }), see };
}

test('a window that is known is not awaited', async () => {
  const { awaitWindow, see } = watching();
  see('a');
  await expect(awaitWindow(windowOf('a'), signal)).resolves.toBeUndefined();
});

test('the wait ends when the leader has created this window, not another one', async () => {
  const { awaitWindow, see } = watching();
  let isOver = false;
  const waiting = awaitWindow(windowOf('a'), signal).then(() => {
    isOver = true;
  });
  see('b');
  await Promise.resolve();
  expect(isOver).toBe(false);
  see('a');
  await waiting;
});

test('without a leader, the wait ends with the request', async () => {
  const { awaitWindow } = watching();
  const request = new AbortController();
  const waiting = awaitWindow(windowOf('a'), request.signal);
  request.abort(new Error('the deadline of the request'));
  await expect(waiting).rejects.toThrow('the deadline of the request');
});

test.each([
  ['creates the window', undefined, 0],
  ['accepts that it exists', new ApiError(409, 'exists', 'AlreadyExists'), 0],
  ['waits for the leader if only the leader may', new ApiError(403, 'forbidden'), 1],
])('a process with both roles %s', async (_what, error, waits) => {
  let waited = 0;
  const create = ((_kind: unknown, object: object) =>
    error === undefined ? Promise.resolve(object) : Promise.reject(error)) as KubeClient['create']; // like `create`
  const store = createWindowOrAwait({ create }, () => {
    waited += 1;
    return Promise.resolve();
  });
  await store(windowOf('a'), signal);
  expect(waited).toBe(waits);
});

test('another failure is reported', async () => {
  const create = (() => Promise.reject(new ApiError(500, 'away'))) as KubeClient['create']; // like `create`
  const store = createWindowOrAwait({ create }, () => Promise.resolve());
  await expect(store(windowOf('a'), signal)).rejects.toThrow('away');
});

/** Waits until the leader has created a RestoreWindow: webhook processes may not. */
import { ApiError } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { orAborted } from '../../kube/clock.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { Watched } from '../watch.ts';
import { createIfAbsent, type StoreWindow } from './restore-evidence.ts';

/**
 * The leader follows the sources of all detectors, so it creates the window within moments. Without a leader, the wait ends
 * with the request, and the API server sends it again.
 */
export const createAwaitWindow =
  ({ store, onChange }: Pick<Watched<RestoreWindow>, 'store' | 'onChange'>): StoreWindow =>
  async ({ metadata: { name = '' } }, signal) => {
    if (store.get(name) !== undefined) return;
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const over = new AbortController();
    onChange((key) => {
      if (key === name && store.get(name) !== undefined) resolve(undefined);
    }, over.signal);
    await orAborted(promise, signal).finally(() => over.abort());
  };

/** Creates the window. The leader may run under another account during an upgrade: then only its writes are trusted. */
export const createWindowOrAwait =
  (client: Pick<KubeClient, 'create'>, awaitWindow: StoreWindow): StoreWindow =>
  async (window, signal) => {
    try {
      await createIfAbsent(client, window, signal);
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 403) throw error;
      await awaitWindow(window, signal);
    }
  };

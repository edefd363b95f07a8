/** Waits until the leader has created the RestoreWindow of a restore: webhook processes may not. */
import { isForbidden } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { orAborted, systemClock, type Clock } from '../../kube/clock.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { Log } from '../../log.ts';
import { hasSameSource } from '../../restore/detected-window.ts';
import { RESTORE_WINDOWS } from '../resources.ts';
import type { Watched } from '../watch.ts';
import { createIfAbsent, type StoreWindow } from './restore-evidence.ts';

/** In milliseconds. The leader needs moments; without a leader, waiting requests would take the places of all others. */
const MAX_WAIT_MS = 2_000;
/** Over this limit, a request is refused at once: the API server sends it again after a second. */
const MAX_WAITING = 32;

/** A name proves nothing, and the leader takes another name if a window in deletion has this one. */
const standsFor = (stored: RestoreWindow | undefined, window: RestoreWindow): boolean =>
  stored !== undefined && stored.metadata.deletionTimestamp === undefined && hasSameSource(stored, window);

/**
 * The leader follows the sources of all detectors, so it creates the window within moments. Requests for the same source
 * share one wait.
 */
export function createAwaitWindow(
  { store, onChange }: Pick<Watched<RestoreWindow>, 'store' | 'onChange'>,
  clock: Pick<Clock, 'after'> = systemClock,
): StoreWindow {
  const waits = new Map<string, Promise<unknown>>();
  let waiting = 0;
  const begin = (window: RestoreWindow, key: string): Promise<unknown> => {
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    const over = new AbortController();
    onChange((changed) => {
      if (standsFor(store.get(changed), window)) resolve(undefined);
    }, over.signal);
    const cancel = clock.after(MAX_WAIT_MS, () =>
      reject(new Error(`no leader has created the RestoreWindow of ${window.spec.reason ?? key} yet`)),
    );
    const wait = promise.finally(() => {
      cancel();
      over.abort();
      waits.delete(key);
    });
    waits.set(key, wait);
    return wait;
  };
  return async (window, signal) => {
    if (store.list().some((stored) => standsFor(stored, window))) return;
    if (waiting >= MAX_WAITING) throw new Error(`${MAX_WAITING} requests wait for RestoreWindows already`);
    waiting += 1;
    const key = JSON.stringify([window.spec.source?.detector, window.spec.source?.ref?.uid]);
    try {
      await orAborted(waits.get(key) ?? begin(window, key), signal);
    } finally {
      waiting -= 1;
    }
  };
}

/** Creates the window. The leader may run under another account during an upgrade: then only its writes are trusted. */
export function createWindowOrAwait(
  client: Pick<KubeClient, 'create' | 'get'>,
  awaitWindow: StoreWindow,
  log: Log,
): StoreWindow {
  let isReported = false;
  return async (window, signal) => {
    try {
      if (await createIfAbsent(client, window, signal)) return;
    } catch (err) {
      if (!isForbidden(err)) throw err;
      if (!isReported)
        log.warn({ err }, 'may not create RestoreWindows: restores without a window wait for the leader');
      isReported = true;
      await awaitWindow(window, signal);
      return;
    }
    const { name = '' } = window.metadata;
    const live = await client.get<RestoreWindow>(RESTORE_WINDOWS, { name }, { signal });
    // The next attempt knows that the name is taken, and derives another one.
    if (!standsFor(live, window))
      throw new Error(`RestoreWindow ${name} belongs to another source, or is being deleted`);
  };
}

/** Evidence that a requester restores: known windows, new windows, and restores without a window. */
import type { RestoreQuery, RequestWorld, RestoringWindow } from '../../admission/policy/world.ts';
import { isPrincipal, type Requester } from '../../api/principals.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import {
  defersAll,
  detectorsOf,
  evidenceOfWindows,
  toEvidence as evidenceOf,
  windowsOfSources,
  hasSameSource,
} from '../../restore/detected-window.ts';
import { windowState, type WriteTarget } from '../../restore/window.ts';
import { insteadOf, isAlreadyExists, isForbidden } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Context } from '../context.ts';
import { RESTORE_WINDOWS } from '../resources.ts';
import { isCovered, listIn } from '../namespaces.ts';
import { createSharedRead } from '../shared-read.ts';
import type { Watched } from '../watch.ts';
import { systemClock, type Clock } from '../../kube/clock.ts';
import { orAborted } from '../../json/abort.ts';
import type { Log } from '../../log.ts';

type StoreWindow = (window: RestoreWindow, signal: AbortSignal) => Promise<unknown>;

const placeOf = ({ resource, namespace }: RestoreQuery): WriteTarget => ({ ...resource, namespace });

export function createRestoreEvidence(
  context: Pick<Context, 'client' | 'config' | 'discovery' | 'namespaces' | 'serverClock'>,
  windows: Pick<Watched<RestoreWindow>, 'store'>,
  detectors: Pick<Watched<RestoreDetector>, 'store'>,
  storeWindow: StoreWindow,
): Pick<RequestWorld, 'mayRestore' | 'knownRestore' | 'restoreEvidence'> {
  const { client, config, discovery, namespaces: covered, serverClock } = context;
  if (config.without.includes('restores')) return NO_RESTORES;
  const { now } = serverClock;
  const listWindows = createSharedRead(() => client.listAll<RestoreWindow>(RESTORE_WINDOWS));

  const mayRestore = (user: Requester): boolean =>
    detectorsOf(detectors.store.list(), user).length > 0 ||
    windows.store
      .list()
      .some(
        (window) => isPrincipal(window.spec.principals, user) && windowState(window, now()).kind === 'open',
      );

  const knownRestore = (query: RestoreQuery) =>
    toEvidence(evidenceOfWindows(windows.store.list(), query.userInfo, placeOf(query), now()));

  /** Live, unless a known window defers all. Backup tools do not retry: a slow watch must not cost an object. */
  const restoreEvidence: RequestWorld['restoreEvidence'] = async (query, signal) => {
    const { userInfo, operation } = query;
    const known = knownRestore(query);
    if (known?.windows.some((one) => defersAll(one, operation)) === true) return known;
    const place = placeOf(query);
    const { items } = await listWindows(signal);
    const found = [...evidenceOfWindows(items, userInfo, place, now())];
    if (found.some((one) => defersAll(one, operation))) return toEvidence(found);
    for (const detector of detectorsOf(detectors.store.list(), userInfo)) {
      const sources = await sourcesOf(detector, signal);
      const missing = windowsOfSources(detector, sources, items, userInfo, place, now());
      // Stored before anything is deferred: the source and the detector may be gone before a leader sees them.
      if (!query.dryRun) await Promise.all(missing.map((window) => storeWindow(window, signal)));
      found.push(...missing.map(evidenceOf));
    }
    return toEvidence(found);
  };

  async function sourcesOf(
    { spec: { watch, namespaces } }: RestoreDetector,
    signal: AbortSignal,
  ): Promise<readonly KubeObject[]> {
    const { apiGroup: group, resource, version } = watch;
    const kind = await discovery.resolve({ group, resource }, signal);
    if (kind === undefined) return []; // the backup tool is not installed
    const inVersion = { ...kind, version };
    const named = namespaces.filter((namespace) => isCovered(covered, namespace));
    return await listIn(client, inVersion, namespaces.includes('*') ? covered : named, { signal });
  }

  return { mayRestore, knownRestore, restoreEvidence };
}

const NO_RESTORES = {
  mayRestore: () => false,
  knownRestore: () => undefined,
  restoreEvidence: () => Promise.resolve(undefined),
};

const toEvidence = (windows: readonly RestoringWindow[]) => (windows.length === 0 ? undefined : { windows });

export const createIfAbsent = (
  client: Pick<KubeClient, 'create'>,
  window: RestoreWindow,
  signal: AbortSignal,
): Promise<boolean> =>
  client.create(RESTORE_WINDOWS, window, { signal }).then(() => true, insteadOf(isAlreadyExists, false));

/** In milliseconds. The leader needs moments; without a leader, waiting requests would take the places of all others. */
const MAX_WAIT_MS = 2_000;
/** Over this limit, a request is refused immediately, and the API server repeats it after a second. */
const MAX_WAITING = 32;

/** By its source, because names don't count, and the leader uses another name while the first window is being deleted. */
const isFor = (stored: RestoreWindow | undefined, window: RestoreWindow): boolean =>
  stored !== undefined && stored.metadata.deletionTimestamp === undefined && hasSameSource(stored, window);

/** Webhook processes cannot create windows, and the leader follows all sources. Requests for one source share a wait. */
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
      if (isFor(store.get(changed), window)) resolve(undefined);
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
    if (store.list().some((stored) => isFor(stored, window))) return;
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
        log.warn(
          { err },
          'lacks permission to create RestoreWindows: restores without a window wait for the leader',
        );
      isReported = true;
      await awaitWindow(window, signal);
      return;
    }
    const { name = '' } = window.metadata;
    const live = await client.get<RestoreWindow>(RESTORE_WINDOWS, { name }, { signal });
    if (!isFor(live, window))
      throw new Error(`RestoreWindow ${name} belongs to another source, or is being deleted`);
  };
}

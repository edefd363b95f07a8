/** A store, and the reflector that fills it until the signal aborts. */
import { createListeners, type Listeners } from './listeners.ts';
import type { Log } from '../log.ts';
import type { KubeObject } from '../json/kube-object.ts';
import type { Change } from '../kube/watch/change.ts';
import { createReflector, type ReflectorOptions } from '../kube/reflector.ts';
import type { Rest } from '../kube/rest.ts';
import { createStore, type Store, type StoreOptions } from '../kube/store.ts';

export interface Watched<T extends KubeObject> {
  readonly store: Store<T>;
  readonly hasSynced: () => boolean;
  readonly whenSynced: (signal: AbortSignal) => Promise<void>;
  /** The error of the latest attempt to list or watch; undefined: it succeeded, or is the first one. */
  readonly failure: () => unknown;
  /** Called with the key of each object that has changed. */
  readonly onChange: Listeners<[key: string]>['add'];
}

/** A watch that can end before its signal aborts. */
export interface Watching<T extends KubeObject> extends Watched<T> {
  /** Whether the first list is pending. False after `LISTING_MS`, so that one kind cannot block readiness. */
  readonly isListing: () => boolean;
  /** Waits for the first list; false after `LISTING_MS`. @throws the reason of `signal` on abort */
  readonly listedInTime: (signal: AbortSignal) => Promise<boolean>;
  readonly stop: () => void;
}

/** Timeout of a first list, in milliseconds. A list of 100,000 objects takes some seconds. */
const LISTING_MS = 10_000;

/** The current version of a changed object, and the previous one. */
export const versionsOf = <T>(change: Change<T>): readonly T[] =>
  change.kind === 'changed' ? [change.object, change.previous] : [change.object];

export interface WatchContext {
  readonly rest: Rest;
  readonly rollbacks: Pick<Listeners<[]>, 'add'>;
  readonly log: Log;
}

export type WatchOptions<T extends KubeObject> = Omit<
  ReflectorOptions<T>,
  'rest' | 'log' | 'store' | 'onChange'
> &
  Partial<Pick<ReflectorOptions<T>, 'onChange'>> &
  StoreOptions<T>;

export function watch<T extends KubeObject>(
  context: WatchContext,
  options: WatchOptions<T>,
  signal: AbortSignal,
): Watching<T> {
  const own = new AbortController();
  const ended = AbortSignal.any([signal, own.signal]);
  const overdueAt = performance.now() + LISTING_MS;
  const store = createStore<T>({ ...(options.indexes === undefined ? {} : { indexes: options.indexes }) });
  const { rest, log, rollbacks } = context;
  const listeners = createListeners<[key: string, change: Change<T>]>();
  if (options.onChange !== undefined) listeners.add(options.onChange);
  const reflector = createReflector<T>({ rest, log, ...options, store, onChange: listeners.tell });
  rollbacks.add(reflector.relist, ended);
  void reflector.run(ended);
  const { hasSynced, whenSynced, failure } = reflector;
  return {
    store,
    hasSynced,
    whenSynced,
    failure,
    onChange: listeners.add,
    isListing: () => !hasSynced() && performance.now() < overdueAt,
    listedInTime: async (waiting) => {
      const timeout = AbortSignal.timeout(LISTING_MS);
      try {
        await whenSynced(AbortSignal.any([waiting, timeout]));
        return true;
      } catch (error) {
        if (!timeout.aborted) throw error;
        return false;
      }
    },
    stop: () => own.abort(),
  };
}

/** A store, and the reflectors that fill it until the signal aborts. */
import { createListeners, type Listeners } from './listeners.ts';
import type { Log } from '../log.ts';
import type { KubeObject } from '../json/kube-object.ts';
import type { Change } from '../kube/watch.ts';
import { createReflector, type ReflectorOptions } from '../kube/reflector.ts';
import type { Rest } from '../kube/rest.ts';
import { placesOf, type Namespaces } from './namespaces.ts';
import { createStore, type Store, type StoreOptions, type WritableStore } from '../kube/store.ts';

export interface Watched<T extends KubeObject> {
  readonly store: Store<T>;
  readonly hasSynced: () => boolean;
  readonly whenSynced: (signal: AbortSignal) => Promise<void>;
  readonly failure: () => unknown;
  readonly onChange: Listeners<[key: string]>['add'];
}

export interface Watching<T extends KubeObject> extends Watched<T> {
  /** Whether the first list is pending. False after `LISTING_MS`, so that a single kind cannot block readiness. */
  readonly isListing: () => boolean;
  /** Waits for the first list; false after `LISTING_MS`. @throws the reason of `signal` on abort */
  readonly listedInTime: (signal: AbortSignal) => Promise<boolean>;
  /** Since the first error without a success after it, in milliseconds. 0: the latest attempt succeeded. */
  readonly failingMs: () => number;
  readonly stop: () => void;
}

/** An API server that has just started forbids everything until it has read its roles, in milliseconds. */
export const STARTING_MS = 5_000;

/** Timeout of a first list, in milliseconds. A list of 100,000 objects takes some seconds. */
const LISTING_MS = 10_000;

export const versionsOf = <T>(change: Change<T>): readonly T[] =>
  change.kind === 'changed' ? [change.object, change.previous] : [change.object];

export interface WatchContext {
  readonly rest: Rest;
  readonly rollbacks: Pick<Listeners<[]>, 'add'>;
  /** Where to watch namespaced kinds, unless the options name a namespace; undefined: everywhere. */
  readonly namespaces: Namespaces;
  readonly log: Log;
}

export type WatchOptions<T extends KubeObject> = Omit<
  ReflectorOptions<T>,
  'rest' | 'log' | 'store' | 'onChange'
> &
  Partial<Pick<ReflectorOptions<T>, 'onChange'>> &
  StoreOptions<T> & {
    /** Instead of the namespaces of the context. Ignored for cluster-scoped kinds. */
    readonly namespaces?: readonly string[] | undefined;
    readonly name?: string | undefined;
  };

export function unwatched<T extends KubeObject>(): Watched<T> {
  return {
    store: createStore<T>(),
    hasSynced: () => true,
    whenSynced: () => Promise.resolve(),
    failure: () => undefined,
    onChange: () => undefined,
  };
}

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
  const { namespaces = context.namespaces, name, ...others } = options;
  const scope = name === undefined ? others : { ...others, fieldSelector: `metadata.name=${name}` };
  const { resource, namespace: only } = scope;
  const places = only === undefined ? placesOf(resource, namespaces) : [only];
  let failingSince: number | undefined;
  const failure = () => reflectors.map((one) => one.failure()).find((error) => error !== undefined);
  const onFailure = () => {
    failingSince = failure() === undefined ? undefined : (failingSince ?? performance.now());
    options.onFailure?.();
  };
  const reflectors = places.map((namespace) =>
    createReflector<T>({
      rest,
      log,
      ...scope,
      namespace,
      onChange: listeners.tell,
      onFailure,
      store: namespace === undefined ? store : inNamespace(store, namespace),
    }),
  );
  for (const { relist, run } of reflectors) {
    rollbacks.add(relist, ended);
    void run(ended);
  }
  const hasSynced = () => reflectors.every((one) => one.hasSynced());
  const whenSynced = async (waiting: AbortSignal) => {
    await Promise.all(reflectors.map((one) => one.whenSynced(waiting)));
  };
  return {
    store,
    hasSynced,
    whenSynced,
    failure,
    failingMs: () => (failingSince === undefined ? 0 : performance.now() - failingSince),
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

export function keepOnly(
  watches: Map<string, { readonly stop: () => void }>,
  isNeeded: (name: string) => boolean,
): void {
  for (const [name, { stop }] of watches) {
    if (isNeeded(name)) continue;
    stop();
    watches.delete(name);
  }
}

/** The part of the store that one of several reflectors fills, whose list is limited to this namespace. */
const inNamespace = <T extends KubeObject>(store: WritableStore<T>, namespace: string): WritableStore<T> => ({
  ...store,
  keys: () => store.keys().filter((key) => key.startsWith(`${namespace}/`)),
});

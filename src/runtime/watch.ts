/** A store, and the reflector that fills it until the signal aborts. */
import { createListeners, type Listeners } from './listeners.ts';
import type { KubeClient } from '../kube/client.ts';
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
  /** Called with the key of each object that has changed. */
  readonly onChange: Listeners<[key: string]>['add'];
}

export interface WatchContext {
  readonly rest: Rest;
  readonly client: KubeClient;
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
): Watched<T> {
  const store = createStore<T>({ ...(options.indexes === undefined ? {} : { indexes: options.indexes }) });
  const { rest, log, rollbacks } = context;
  const listeners = createListeners<[key: string, change: Change<T>]>();
  if (options.onChange !== undefined) listeners.add(options.onChange);
  const reflector = createReflector<T>({ rest, log, ...options, store, onChange: listeners.tell });
  rollbacks.add(reflector.relist, signal);
  void reflector.run(signal);
  const { hasSynced, whenSynced } = reflector;
  return { store, hasSynced, whenSynced, onChange: listeners.add };
}

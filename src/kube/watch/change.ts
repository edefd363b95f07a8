import type { Log } from '../../log.ts';
import { keyOf, type KubeObject } from '../../json/kube-object.ts';
import type { WritableStore } from '../store.ts';

/** What happened to an object. A new uid under the same name is two changes: deleted and added. */
export type Change<T> =
  | { readonly kind: 'added'; readonly object: T }
  | { readonly kind: 'changed'; readonly object: T; readonly previous: T }
  /** `object` is its last known state. */
  | { readonly kind: 'deleted'; readonly object: T };

/** Reports each difference exactly once, after the store has changed. `consume` may throw or reject. */
export function createChangeSink<T extends KubeObject>(
  store: WritableStore<T>,
  transform: (object: T) => T,
  consume: (key: string, change: Change<T>) => unknown,
  log: Pick<Log, 'error'>,
) {
  const tell = (key: string, change: Change<T>): void => {
    const failed = (error: unknown): void => {
      log.error({ key, change: change.kind, err: error }, 'a consumer of changes failed');
    };
    try {
      const result = consume(key, change);
      if (result instanceof Promise) result.catch(failed);
    } catch (error) {
      failed(error);
    }
  };

  const prepare = (key: string, object: T): T => {
    try {
      return transform(object);
    } catch (error) {
      // Keep the untransformed object: a missing object would look deleted.
      log.error({ key, err: error }, 'could not transform an object');
      return object;
    }
  };

  const drop = (key: string): void => {
    const object = store.get(key);
    if (object === undefined) return;
    store.delete(key);
    tell(key, { kind: 'deleted', object });
  };

  const put = (object: T, everything: boolean, transformed: (key: string, object: T) => T): void => {
    const key = keyOf(object);
    const known = store.get(key);
    if (known !== undefined && known.metadata?.uid !== object.metadata?.uid) drop(key);
    const previous = store.get(key);
    if (previous !== undefined && !everything && sameVersion(previous, object)) return;
    try {
      const stored = store.set(key, transformed(key, object));
      tell(
        key,
        previous === undefined
          ? { kind: 'added', object: stored }
          : { kind: 'changed', object: stored, previous },
      );
    } catch (error) {
      log.error({ key, err: error }, 'could not store an object: an index function failed');
    }
  };

  return {
    set: (object: T): void => put(object, false, prepare),
    remove: (object: T): void => drop(keyOf(object)),
    prepare: (object: T): T => prepare(keyOf(object), object),
    /** `everything` reports even objects that look unchanged: after a rollback two states may share a resourceVersion. */
    replaceAll: (objects: readonly T[], everything: boolean): void => {
      const present = new Set(objects.map(keyOf));
      for (const key of store.keys()) if (!present.has(key)) drop(key);
      for (const object of objects) put(object, everything, (_key, prepared) => prepared);
    },
  };
}

function sameVersion(a: KubeObject, b: KubeObject): boolean {
  const version = a.metadata?.resourceVersion;
  return version !== undefined && version !== '' && version === b.metadata?.resourceVersion;
}

/** managedFields often take half of an object, and no reader of a cache needs them. */
export function dropManagedFields<T extends KubeObject>(object: T): T {
  if (object.metadata !== undefined) Reflect.deleteProperty(object.metadata, 'managedFields');
  return object;
}

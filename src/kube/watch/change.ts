import type { Log } from '../../log.ts';
import { keyOf, type KubeObject } from '../../json/kube-object.ts';
import type { WritableStore } from '../store.ts';

/** What happened to an object. One that was deleted and created anew is two changes, as its uid says. */
export type Change<T> =
  | { readonly kind: 'added'; readonly object: T }
  | { readonly kind: 'changed'; readonly object: T; readonly previous: T }
  /** `object` is its last known state. */
  | { readonly kind: 'deleted'; readonly object: T };

export interface ChangeSinkDeps<T extends KubeObject> {
  readonly store: WritableStore<T>;
  readonly transform: (object: T) => T;
  /** Told after the store has changed. May throw: that is logged, and no other change is lost. */
  readonly onChange: (key: string, change: Change<T>) => void;
  readonly log: Pick<Log, 'error'>;
}

/** Writes to the store what a list or a watch says, and tells each difference exactly once. */
export interface ChangeSink<T extends KubeObject> {
  readonly set: (object: T) => void;
  readonly remove: (object: T) => void;
  /** The object as the store will hold it: what a list has to be made of. */
  readonly prepare: (object: T) => T;
  /**
   * The store becomes `objects`, which went through `prepare`.
   * @param everything tell also what looks unchanged: after a rollback one resourceVersion may stand for two states
   */
  readonly replaceAll: (objects: readonly T[], everything: boolean) => void;
}

export function createChangeSink<T extends KubeObject>(deps: ChangeSinkDeps<T>): ChangeSink<T> {
  const { store, log } = deps;

  const tell = (key: string, change: Change<T>): void => {
    const failed = (error: unknown): void => {
      log.error({ key, change: change.kind, err: error }, 'a consumer of changes failed');
    };
    try {
      // An async consumer fits the type, and its rejection must not end the process.
      const onChange: (key: string, change: Change<T>) => unknown = deps.onChange;
      const result = onChange(key, change);
      if (result instanceof Promise) result.catch(failed);
    } catch (error) {
      failed(error);
    }
  };

  const prepare = (key: string, object: T): T => {
    try {
      return deps.transform(object);
    } catch (error) {
      // Better the object as it came than not at all: an absent one would look deleted.
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
    set: (object) => {
      put(object, false, prepare);
    },
    remove: (object) => {
      drop(keyOf(object));
    },
    prepare: (object) => prepare(keyOf(object), object),
    replaceAll: (objects, everything) => {
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

/** Half of many objects is managedFields, and no reader of a cache wants them. */
export function dropManagedFields<T extends KubeObject>(object: T): T {
  if (object.metadata !== undefined) Reflect.deleteProperty(object.metadata, 'managedFields');
  return object;
}

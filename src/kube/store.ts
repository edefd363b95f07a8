import { deepFreeze } from '../json/objects.ts';
import type { KubeObject } from '../json/kube-object.ts';

/** The objects of one resource, as last seen. All of them are frozen to the bottom. */
export interface Store<T extends KubeObject> {
  readonly get: (key: string) => T | undefined;
  readonly list: () => readonly T[];
  /** The objects whose index function gave `value`. @throws when there is no such index */
  readonly byIndex: (index: string, value: string) => readonly T[];
  readonly size: () => number;
  readonly keys: () => readonly string[];
}

/** The half of a store that belongs to its reflector. */
export interface WritableStore<T extends KubeObject> extends Store<T> {
  /** Freezes the object and returns it. */
  readonly set: (key: string, object: T) => T;
  readonly delete: (key: string) => void;
}

/** The values under which an object is found. Must not throw: objects are written by users. */
export type IndexFunction<T> = (object: T) => readonly string[];

export interface StoreOptions<T> {
  readonly indexes?: Readonly<Record<string, IndexFunction<T>>>;
}

export function createStore<T extends KubeObject>({ indexes = {} }: StoreOptions<T> = {}): WritableStore<T> {
  const objects = new Map<string, T>();
  const byName = new Map(Object.entries(indexes).map(([name, valuesOf]) => [name, createIndex(valuesOf)]));
  const all = [...byName.values()];

  return {
    get: (key) => objects.get(key),
    list: () => [...objects.values()],
    keys: () => [...objects.keys()],
    size: () => objects.size,
    byIndex: (name, value) => {
      const index = byName.get(name);
      if (index === undefined) {
        throw new Error(
          `the store has no index "${name}"; it has: ${[...byName.keys()].join(', ') || 'none'}`,
        );
      }
      return index.keysOf(value).flatMap((key) => objects.get(key) ?? []);
    },
    set: (key, object) => {
      const frozen = deepFreeze(object);
      // All functions run before anything changes: should one throw after all, store and indexes still agree.
      const prepared = all.map((index) => index.prepare(key, frozen));
      objects.set(key, frozen);
      for (const commit of prepared) commit();
      return frozen;
    },
    delete: (key) => {
      objects.delete(key);
      for (const index of all) index.remove(key);
    },
  };
}

function createIndex<T>(valuesOf: IndexFunction<T>) {
  /** One key stands for itself: where values are unique, a set for each would be larger than all the rest. */
  const keysByValue = new Map<string, string | Set<string>>();
  const valuesByKey = new Map<string, readonly string[]>();

  const remove = (key: string): void => {
    for (const value of valuesByKey.get(key) ?? []) {
      const keys = keysByValue.get(value);
      if (keys instanceof Set) keys.delete(key);
      if (keys === key || (keys instanceof Set && keys.size === 0)) keysByValue.delete(value);
    }
    valuesByKey.delete(key);
  };

  const add = (key: string, value: string): void => {
    const keys = keysByValue.get(value);
    if (keys === undefined) keysByValue.set(value, key);
    else if (keys instanceof Set) keys.add(key);
    else if (keys !== key) keysByValue.set(value, new Set([keys, key]));
  };

  return {
    remove,
    prepare: (key: string, object: T): (() => void) => {
      const values = valuesOf(object);
      return () => {
        remove(key);
        // Most objects of some indexes have no value: nothing is kept of them.
        if (values.length > 0) valuesByKey.set(key, values);
        for (const value of values) add(key, value);
      };
    },
    keysOf: (value: string): readonly string[] => {
      const keys = keysByValue.get(value);
      return typeof keys === 'string' ? [keys] : [...(keys ?? [])];
    },
  };
}

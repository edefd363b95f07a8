import { deepFreeze } from '../json/json.ts';
import type { KubeObject } from '../json/kube-object.ts';

/** Deeply frozen objects of one resource, as last seen. */
export interface Store<T extends KubeObject> {
  readonly get: (key: string) => T | undefined;
  readonly list: () => readonly T[];
  /** The objects for which the index function returned `value`. @throws when the index does not exist */
  readonly byIndex: (index: string, value: string) => readonly T[];
  readonly keys: () => readonly string[];
}

export interface WritableStore<T extends KubeObject> extends Store<T> {
  readonly set: (key: string, object: T) => T;
  readonly delete: (key: string) => void;
}

/** The index values of an object. Must not throw for any content, because users write the objects. */
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
    byIndex: (name, value) => {
      const index = byName.get(name);
      if (index === undefined) throw new Error(`index "${name}" of the store not found`);
      return index.keysOf(value).flatMap((key) => objects.get(key) ?? []);
    },
    set: (key, object) => {
      const frozen = deepFreeze(object);
      // Run all index functions before any change: if one throws, the store and its indexes stay consistent.
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
  /** A single key is stored without a set: where values are unique, one set per value would take most of the memory. */
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
        // In some indexes, most objects lack values: store nothing for them.
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

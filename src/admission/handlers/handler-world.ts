import type { ReadKind } from './compile-handler.ts';
import { groupResourceName, type ObjectRef } from '../../json/kube-object.ts';
import { deepFreeze, valueIn } from '../../json/json.ts';
import { copyJson } from './draft.ts';

type ObjectName = Pick<ObjectRef, 'namespace' | 'name'>;

export interface Query {
  /** Undefined: all namespaces. */
  readonly namespace: string | undefined;
  /** In the API's syntax, e.g. `tier=gold,rack in (a,b)`; undefined: all. */
  readonly labelSelector: string | undefined;
}

/** Stores that may be behind, and live reads, which throw Unreadable if a retry would not help. */
export interface HandlerWorld {
  /** Throws if the API server does not serve the kind or does not answer. */
  readonly isNamespaced: (kind: ReadKind, signal: AbortSignal) => Promise<boolean>;
  /** Reads from the store. Undefined proves nothing, because the store may be behind. */
  readonly find: (kind: ReadKind, name: ObjectName) => object | undefined;
  /** Reads from the store. Undefined: the store is not synced yet. */
  readonly select: (kind: ReadKind, namespace: string | undefined) => readonly object[] | undefined;
  /** Reads live. Undefined means that the object does not exist. Throws if the API server does not answer. */
  readonly read: (kind: ReadKind, name: ObjectName, signal: AbortSignal) => Promise<object | undefined>;
  /** Lists live. Throws like `read`. */
  readonly query: (kind: ReadKind, query: Query, signal: AbortSignal) => Promise<readonly object[]>;
}

/** A world of these objects, by kind such as `datacenters.infra.example.com`. It serves every kind. */
export function worldOf(objects: Readonly<Record<string, readonly object[]>>): HandlerWorld {
  const byKind = new Map(
    Object.entries(objects).map(([kind, list]) => [kind, list.map((object) => deepFreeze(copyJson(object)))]),
  );
  const all = (kind: ReadKind): readonly object[] => byKind.get(groupResourceName(kind)) ?? [];
  const isIn = (namespace: string | undefined) => (object: object) =>
    namespace === undefined || valueIn(object, 'metadata', 'namespace') === namespace;
  return {
    isNamespaced: (kind) =>
      Promise.resolve(all(kind).some((object) => valueIn(object, 'metadata', 'namespace') !== undefined)),
    find: () => undefined,
    select: () => undefined,
    read: (kind, { namespace, name }) =>
      Promise.resolve(
        all(kind).find((object) => valueIn(object, 'metadata', 'name') === name && isIn(namespace)(object)),
      ),
    query: (kind, { namespace }) => Promise.resolve(all(kind).filter(isIn(namespace))),
  };
}

import type { ReadKind } from './compile-handler.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import { isJsonObject, ownValue } from '../../json/json.ts';
import { copyJson } from './draft.ts';
import { deepFreeze } from '../../json/objects.ts';

/** One object of a known kind; the namespace of a cluster-scoped one is undefined. */
export interface Place {
  readonly namespace: string | undefined;
  readonly name: string;
}

export interface Query {
  /** Undefined: all. */
  readonly namespace: string | undefined;
  /** As the API writes it, e.g. `tier=gold,rack in (a,b)`; undefined: all. */
  readonly labelSelector: string | undefined;
}

/**
 * The only door from handlers to the cluster: stores that may be behind, and live reads that may not. What is live throws
 * Unreadable where it would not help to ask again.
 */
export interface HandlerWorld {
  /** Throws when the API server does not serve the kind, or does not say. */
  readonly isNamespaced: (kind: ReadKind, signal: AbortSignal) => Promise<boolean>;
  /** From the store. Undefined: it does not hold it, which says nothing. */
  readonly find: (kind: ReadKind, place: Place) => object | undefined;
  /** From the store. Undefined: it has not been filled yet. */
  readonly select: (kind: ReadKind, namespace: string | undefined) => readonly object[] | undefined;
  /** Live; undefined only when there certainly is none. Throws when the API server does not say. */
  readonly read: (kind: ReadKind, place: Place, signal: AbortSignal) => Promise<object | undefined>;
  /** Live. Throws as `read`. */
  readonly query: (kind: ReadKind, query: Query, signal: AbortSignal) => Promise<readonly object[]>;
}

/** A cluster of the objects given, by kind such as `datacenters.infra.example.com`: every kind is served, and nothing is cached. */
export function worldOf(objects: Readonly<Record<string, readonly object[]>>): HandlerWorld {
  const byKind = new Map(
    Object.entries(objects).map(([kind, list]) => [kind, list.map((object) => deepFreeze(copyJson(object)))]),
  );
  const all = (kind: ReadKind): readonly object[] => byKind.get(groupResourceName(kind)) ?? [];
  const isIn = (namespace: string | undefined) => (object: object) =>
    namespace === undefined || metaOf(object, 'namespace') === namespace;
  return {
    isNamespaced: (kind) =>
      Promise.resolve(all(kind).some((object) => metaOf(object, 'namespace') !== undefined)),
    find: () => undefined,
    select: () => undefined,
    read: (kind, { namespace, name }) =>
      Promise.resolve(all(kind).find((object) => metaOf(object, 'name') === name && isIn(namespace)(object))),
    query: (kind, { namespace }) => Promise.resolve(all(kind).filter(isIn(namespace))),
  };
}

function metaOf(object: object, field: string): unknown {
  const metadata = ownValue(object, 'metadata');
  return isJsonObject(metadata) ? ownValue(metadata, field) : undefined;
}

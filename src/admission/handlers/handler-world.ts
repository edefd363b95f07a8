import type { ReadKind } from './compile-handler.ts';

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

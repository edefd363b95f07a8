import type { ApiObject } from '../api-object.ts';
import type { ResourceType } from '../resource-type.ts';

/** Where objects of one resource are kept, whatever version they were written in. */
export interface Place {
  readonly group: string;
  readonly resource: string;
}

export interface Key {
  /** Empty for cluster-scoped resources. */
  readonly namespace: string;
  readonly name: string;
}

export interface Page {
  readonly items: readonly ApiObject[];
  /** The resourceVersion of the list: of the first page, for all that follow it. */
  readonly revision: number;
  /** Opaque; undefined when this is the last page. */
  readonly continueToken?: string;
  /** How many come after this page. Undefined when selectors make it unknown, as in the API. */
  readonly remaining?: number;
}

export interface ListOptions {
  /** Undefined: all namespaces. */
  readonly namespace?: string;
  readonly limit?: number;
  readonly continueToken?: string;
  /** The state as it was at this revision; of no account with a continue token, which has its own. */
  readonly revision?: number;
  /** Label and field selectors; undefined selects all. */
  readonly accepts?: (object: ApiObject) => boolean;
}

export interface StoredEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  /** As it is now; of a deletion: the last state, with the deletion's resourceVersion. */
  readonly object: ApiObject;
  /** The state before, undefined for ADDED. */
  readonly previous?: ApiObject;
  readonly revision: number;
}

/**
 * Every object, with one resourceVersion counter for all. Synchronous: a read and the write that follows it without an
 * `await` between them are one transaction.
 */
export interface Storage {
  /** The counter's value; the resourceVersion of the last write. */
  readonly revision: () => number;
  readonly get: (place: Place, key: Key) => ApiObject | undefined;
  /** @throws ApiFailure 410 when the revision, or that of the continue token, is not known any more, 400 when it is none of ours */
  readonly list: (place: Place, options?: ListOptions) => Page;
  readonly count: (place: Place) => number;
  /** Stores it under its namespace and name with a new resourceVersion. @throws ApiFailure 409 AlreadyExists */
  readonly create: (place: Place, object: ApiObject) => ApiObject;
  /** Replaces it if it still is at `expected`. @throws ApiFailure 409 Conflict, 404 */
  readonly replace: (place: Place, object: ApiObject, expected: string) => ApiObject;
  /** Removes it if it still is at `expected`; its last state with a new resourceVersion. @throws ApiFailure 409, 404 */
  readonly remove: (place: Place, key: Key, expected: string) => ApiObject;
  /**
   * Calls back with every event after `fromRevision`: first, before it returns, those that are past; then each as it
   * happens, synchronously with the write. Returns how to stop. @throws ApiFailure 410 when the history does not reach back
   */
  readonly watch: (place: Place, fromRevision: number, onEvent: (event: StoredEvent) => void) => () => void;
  /** Every event of every place, in order: for controllers and persistence. */
  readonly watchAll: (onEvent: (place: Place, event: StoredEvent) => void) => () => void;
}

/** Key of an object within its place, as etcd has it: lists are in the order of these. */
export const keyOf = ({ namespace, name }: Partial<Key>) =>
  namespace === undefined || namespace === '' ? (name ?? '') : `${namespace}/${name ?? ''}`;

/** All keys of a namespace lie from the one to before the other: `0` is the character after `/`. */
export const keyRangeOf = (namespace: string) => ({ from: `${namespace}/`, to: `${namespace}0` });

export const placeOf = ({ group, resource }: ResourceType): Place => {
  // Events of both groups are one resource in the API server too.
  if (group === 'events.k8s.io') return { group: '', resource };
  return { group, resource };
};

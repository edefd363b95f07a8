import type { GroupResource } from '../../json/kube-object.ts';
import type { ApiObject } from '../api-object.ts';
import type { ResourceType } from '../resource-type.ts';

/** Where the objects of one resource are stored, whatever the version they were written in. */
export type Place = GroupResource;

export interface Key {
  /** Empty for cluster-scoped resources. */
  readonly namespace: string;
  readonly name: string;
}

export interface Page {
  readonly items: readonly ApiObject[];
  /** The resourceVersion of the list; that of the first page for all following pages. */
  readonly revision: number;
  /** Opaque; undefined on the last page. */
  readonly continueToken?: string;
  /** The number of objects after this page. Undefined with selectors, as in the API. */
  readonly remaining?: number;
}

export interface ListOptions {
  /** Undefined: all namespaces. */
  readonly namespace?: string;
  readonly limit?: number;
  readonly continueToken?: string;
  /** List the state at this revision; ignored with a continue token, which has its own revision. */
  readonly revision?: number;
  /** Label and field selectors; undefined selects everything. */
  readonly accepts?: (object: ApiObject) => boolean;
}

export interface StoredEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  /** The current state; for a deletion, the last state with the resourceVersion of the deletion. */
  readonly object: ApiObject;
  /** The previous state; undefined for ADDED. */
  readonly previous?: ApiObject;
  readonly revision: number;
}

/**
 * All objects, with one resourceVersion counter. Synchronous: a read and a write without an `await` in between form a
 * transaction.
 */
export interface Storage {
  /** The counter's value: the resourceVersion of the last write. */
  readonly revision: () => number;
  readonly get: (place: Place, key: Key) => ApiObject | undefined;
  /**
   * @throws ApiFailure 410 if the revision of the request or of its continue token is no longer known; 400 if the
   *   token is invalid
   */
  readonly list: (place: Place, options?: ListOptions) => Page;
  readonly count: (place: Place) => number;
  /** Stores the object with a new resourceVersion. @throws ApiFailure 409 AlreadyExists */
  readonly create: (place: Place, object: ApiObject) => ApiObject;
  /** Replaces the object if its resourceVersion is still `expected`. @throws ApiFailure 409 Conflict, 404 */
  readonly replace: (place: Place, object: ApiObject, expected: string) => ApiObject;
  /**
   * Removes the object if its resourceVersion is still `expected`; returns its last state with a new resourceVersion.
   * @throws ApiFailure 409, 404
   */
  readonly remove: (place: Place, key: Key, expected: string) => ApiObject;
  /**
   * Calls back with every event after `fromRevision`: first all past events, before it returns; then each event
   * synchronously with its write. Returns a function that stops the watch. @throws ApiFailure 410 if the history does
   * not go back far enough
   */
  readonly watch: (place: Place, fromRevision: number, onEvent: (event: StoredEvent) => void) => () => void;
  /** All events of all places in order, for controllers. */
  readonly watchAll: (onEvent: (place: Place, event: StoredEvent) => void) => () => void;
}

/** The key of an object within its place, as in etcd; lists are sorted by it. */
export const keyOf = ({ namespace, name }: Partial<Key>) =>
  namespace === undefined || namespace === '' ? (name ?? '') : `${namespace}/${name ?? ''}`;

/** The key range of a namespace, excluding `to`: `0` is the character after `/`. */
export const keyRangeOf = (namespace: string) => ({ from: `${namespace}/`, to: `${namespace}0` });

export const placeOf = ({ group, resource }: ResourceType): Place => {
  // The API server stores Events of both groups in one place.
  if (group === 'events.k8s.io') return { group: '', resource };
  return { group, resource };
};

import type { GroupResource } from '../../json/kube-object.ts';
import type { ApiObject } from '../api-object.ts';
import type { ResourceType } from '../resource-type.ts';

export type Place = GroupResource;

export interface Key {
  /** Empty for cluster-scoped resources. */
  readonly namespace: string;
  readonly name: string;
}

export interface Page {
  readonly items: readonly ApiObject[];
  /** The resourceVersion of the list; all pages have the first page's. */
  readonly revision: number;
  readonly continueToken?: string;
  /** The number of objects after this page. Like in the API, undefined with selectors. */
  readonly remaining?: number;
}

export interface ListOptions {
  readonly namespace?: string;
  readonly limit?: number;
  readonly continueToken?: string;
  /** List the state at this revision; ignored with a continue token, which has its own revision. */
  readonly revision?: number;
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

/** All objects, with one resourceVersion counter. Synchronous: without an `await` in between, a read and a write are atomic. */
export interface Storage {
  readonly revision: () => number;
  readonly get: (place: Place, key: Key) => ApiObject | undefined;
  /** @throws ApiFailure 410 if the revision or continue token is too old, 400 if the token is invalid */
  readonly list: (place: Place, options?: ListOptions) => Page;
  readonly count: (place: Place) => number;
  /** Stores the object with a new resourceVersion. @throws ApiFailure 409 AlreadyExists */
  readonly create: (place: Place, object: ApiObject) => ApiObject;
  /** Replaces the object if its resourceVersion is still `expected`. @throws ApiFailure 409 Conflict, 404 */
  readonly replace: (place: Place, object: ApiObject, expected: string) => ApiObject;
  /** Returns the last state with a new resourceVersion. @throws ApiFailure 404, or 409 if the version is not `expected` */
  readonly remove: (place: Place, key: Key, expected: string) => ApiObject;
  /** Reports past events at once. @throws ApiFailure 410 if their history is gone */
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

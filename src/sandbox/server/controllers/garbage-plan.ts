import type { OwnerReference } from '../../../json/kube-object.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import type { Place, StoredEvent } from '../../machinery/storage/stored.ts';

/** Finalizers that request work from the garbage collector. */
export const ORPHAN = 'orphan';
export const FOREGROUND = 'foregroundDeletion';

export type Propagation = 'Background' | 'Foreground' | 'Orphan';

/**
 * `solid`: the owner exists. `gone`: it does not. `waiting`: it is being deleted and waits for its dependents.
 * `unknown`: its kind is not served, or it cannot own this object.
 */
export type OwnerState = 'solid' | 'gone' | 'waiting' | 'unknown';

export interface GarbageState {
  readonly object: ApiObject;
  readonly dependents: readonly ApiObject[];
  readonly ownerState: (reference: OwnerReference) => OwnerState;
}

export type GarbagePlan =
  | { readonly kind: 'keep' }
  /** Undecided until the kinds of its owners are served. */
  | { readonly kind: 'await-kinds' }
  /** Removes the reference from its dependents, then the finalizer from the object. */
  | { readonly kind: 'orphan-dependents' }
  /** Processes its dependents: each is deleted or loses its reference. */
  | { readonly kind: 'await-dependents' }
  | { readonly kind: 'remove-finalizer'; readonly finalizer: string }
  | { readonly kind: 'drop-owners'; readonly uids: readonly string[] }
  /** With `unblock`, its owners first stop waiting for it, because it waits for one of them. */
  | { readonly kind: 'delete'; readonly propagation: Propagation; readonly unblock: boolean };

/** @see kubernetes/pkg/controller/garbagecollector/garbagecollector.go, attemptToDeleteItem */
export function planGarbage({ object, dependents, ownerState }: GarbageState): GarbagePlan {
  if (object.metadata.deletionTimestamp !== undefined) return planMarked(object, dependents);
  const references = object.metadata.ownerReferences ?? [];
  if (references.length === 0) return { kind: 'keep' };
  const states = references.map(ownerState);
  if (states.includes('unknown')) return { kind: 'await-kinds' };

  if (states.includes('solid')) {
    // Otherwise owners that wait for this object would wait forever, because it stays.
    const uids = references.filter((_, index) => states[index] !== 'solid').map(({ uid }) => uid);
    return uids.length === 0 ? { kind: 'keep' } : { kind: 'drop-owners', uids };
  }
  if (states.includes('waiting') && dependents.length > 0) {
    return { kind: 'delete', propagation: 'Foreground', unblock: dependents.some(isWaiting) };
  }
  return { kind: 'delete', propagation: propagationOf(object), unblock: false };
}

/** Whether the object is being deleted and waits for its dependents. */
export const isWaiting = ({ metadata }: ApiObject): boolean =>
  metadata.deletionTimestamp !== undefined && metadata.finalizers?.includes(FOREGROUND) === true;

function planMarked(object: ApiObject, dependents: readonly ApiObject[]): GarbagePlan {
  if (object.metadata.finalizers?.includes(ORPHAN) === true) return { kind: 'orphan-dependents' };
  if (!isWaiting(object)) return { kind: 'keep' };
  const blocks = (dependent: ApiObject) =>
    dependent.metadata.ownerReferences?.some(
      ({ uid, blockOwnerDeletion }) => uid === object.metadata.uid && blockOwnerDeletion === true,
    ) === true;
  return dependents.some(blocks)
    ? { kind: 'await-dependents' }
    : { kind: 'remove-finalizer', finalizer: FOREGROUND };
}

/** An existing finalizer decides the propagation. */
function propagationOf({ metadata: { finalizers = [] } }: ApiObject): Propagation {
  if (finalizers.includes(ORPHAN)) return 'Orphan';
  return finalizers.includes(FOREGROUND) ? 'Foreground' : 'Background';
}

export interface Stored {
  readonly place: Place;
  readonly object: ApiObject;
}

/** Owners and dependents by uid. An owner need not exist. */
export interface OwnerGraph {
  readonly observe: (place: Place, event: Pick<StoredEvent, 'type' | 'object'>) => void;
  readonly get: (uid: string) => Stored | undefined;
  readonly dependentsOf: (uid: string) => readonly Stored[];
}

export const ownersOf = ({ metadata }: ApiObject): readonly string[] =>
  (metadata.ownerReferences ?? []).map(({ uid }) => uid);

export function createOwnerGraph(): OwnerGraph {
  const objects = new Map<string, Stored>();
  const dependents = new Map<string, Set<string>>();

  const unlink = (uid: string, owner: string) => {
    const linked = dependents.get(owner);
    linked?.delete(uid);
    if (linked?.size === 0) dependents.delete(owner);
  };
  const link = (uid: string, owner: string) => {
    const linked = dependents.get(owner);
    if (linked === undefined) dependents.set(owner, new Set([uid]));
    else linked.add(uid);
  };

  return {
    observe: (place, { type, object }) => {
      const { uid } = object.metadata;
      if (uid === undefined) return;
      const before = objects.get(uid);
      if (before !== undefined) for (const owner of ownersOf(before.object)) unlink(uid, owner);
      if (type === 'DELETED') {
        objects.delete(uid);
        return;
      }
      objects.set(uid, { place, object });
      for (const owner of ownersOf(object)) link(uid, owner);
    },
    get: (uid) => objects.get(uid),
    dependentsOf: (uid) => [...(dependents.get(uid) ?? [])].flatMap((each) => objects.get(each) ?? []),
  };
}

import type { OwnerReference } from '../../../json/kube-object.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import type { Place, StoredEvent } from '../../machinery/storage/stored.ts';

/** Finalizers by which a deletion asks for the garbage collector's work. */
export const ORPHAN = 'orphan';
export const FOREGROUND = 'foregroundDeletion';

export type Propagation = 'Background' | 'Foreground' | 'Orphan';

/**
 * `solid`: it is there. `gone`: it is not. `waiting`: it is being deleted once its dependents are.
 * `unknown`: nobody can tell, because its kind is not served, or cannot own what refers to it.
 */
export type OwnerState = 'solid' | 'gone' | 'waiting' | 'unknown';

export interface GarbageState {
  readonly object: ApiObject;
  readonly dependents: readonly ApiObject[];
  readonly ownerState: (reference: OwnerReference) => OwnerState;
}

export type GarbagePlan =
  | { readonly kind: 'keep' }
  /** Nothing can be said until the kinds of its owners are served. */
  | { readonly kind: 'await-kinds' }
  /** Its dependents lose their reference to it, then it loses the finalizer. */
  | { readonly kind: 'orphan-dependents' }
  /** Its dependents are to be looked at: each goes, or loses its reference to this one. */
  | { readonly kind: 'await-dependents' }
  | { readonly kind: 'remove-finalizer'; readonly finalizer: string }
  | { readonly kind: 'drop-owners'; readonly uids: readonly string[] }
  /** With `unblock`, its owners stop waiting for it first: it waits for one of them itself. */
  | { readonly kind: 'delete'; readonly propagation: Propagation; readonly unblock: boolean };

/** @see kubernetes/pkg/controller/garbagecollector/garbagecollector.go, attemptToDeleteItem */
export function planGarbage({ object, dependents, ownerState }: GarbageState): GarbagePlan {
  if (object.metadata.deletionTimestamp !== undefined) return planMarked(object, dependents);
  const references = object.metadata.ownerReferences ?? [];
  if (references.length === 0) return { kind: 'keep' };
  const states = references.map(ownerState);
  if (states.includes('unknown')) return { kind: 'await-kinds' };

  if (states.includes('solid')) {
    // Owners that wait for this object would do so for ever, since it stays.
    const uids = references.filter((_, index) => states[index] !== 'solid').map(({ uid }) => uid);
    return uids.length === 0 ? { kind: 'keep' } : { kind: 'drop-owners', uids };
  }
  if (states.includes('waiting') && dependents.length > 0) {
    return { kind: 'delete', propagation: 'Foreground', unblock: dependents.some(isWaiting) };
  }
  return { kind: 'delete', propagation: propagationOf(object), unblock: false };
}

/** Whether it is being deleted once its dependents are. */
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

/** A finalizer that is there already is honoured. */
function propagationOf({ metadata: { finalizers = [] } }: ApiObject): Propagation {
  if (finalizers.includes(ORPHAN)) return 'Orphan';
  return finalizers.includes(FOREGROUND) ? 'Foreground' : 'Background';
}

export interface Stored {
  readonly place: Place;
  readonly object: ApiObject;
}

/** Who owns whom, by uid. An owner need not be there. */
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

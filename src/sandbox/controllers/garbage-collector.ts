import type { OwnerReference } from '../../json/kube-object.ts';
import { withMeta, type ApiObject } from '../../machinery/api-object.ts';
import { ApiFailure } from '../../machinery/failure.ts';
import type { Key, Place, Storage, StoredEvent } from '../../machinery/storage/stored.ts';
import { createWorkQueue } from './work-queue.ts';

export interface DeletionOptions {
  readonly propagationPolicy: Propagation;
  readonly preconditions: { readonly uid: string; readonly resourceVersion: string };
}

export interface GarbageCollectorOptions {
  readonly storage: Pick<Storage, 'get' | 'watchAll'>;
  /** All stored objects at the start. */
  readonly stored: () => Iterable<Stored>;
  /** Where objects of a kind are stored; undefined if the kind is not served. */
  readonly findKind: (
    apiVersion: string,
    kind: string,
  ) => { readonly place: Place; readonly namespaced: boolean } | undefined;
  /** Removes the object or marks it for deletion. @throws ApiFailure 404, 409 */
  readonly deleteObject: (place: Place, key: Key, options: DeletionOptions) => void | Promise<void>;
  /**
   * Replaces the object, or removes it if it was marked and has lost its last finalizer. @throws ApiFailure 404, 409
   */
  readonly replaceObject: (place: Place, object: ApiObject) => void | Promise<void>;
  /** Called with errors of work that is retried. */
  readonly onError: (error: unknown) => void;
}

/**
 * Deletes objects whose owners are gone, and completes foreground and orphaning deletions. Returns a function that
 * stops the collector.
 *
 * @see kubernetes/pkg/controller/garbagecollector
 */
export function startGarbageCollector(options: GarbageCollectorOptions): () => void {
  const { storage, onError } = options;
  const graph = createOwnerGraph();
  /** The uids of objects with owners of kinds that are not served. */
  const awaitingKinds = new Set<string>();
  const queue = createWorkQueue((uid) => collect(uid), onError);
  const { add } = queue;

  const collect = async (uid: string) => {
    awaitingKinds.delete(uid);
    const stored = graph.get(uid);
    if (stored === undefined) return;
    const { object } = stored;
    const dependents = graph.dependentsOf(uid);
    const plan = planGarbage({
      object,
      dependents: dependents.map((one) => one.object),
      ownerState: (reference) => ownerState(options, object, reference),
    });
    switch (plan.kind) {
      case 'keep':
        return;
      case 'await-kinds':
        awaitingKinds.add(uid);
        return;
      case 'await-dependents':
        for (const { object: dependent } of dependents) add(dependent.metadata.uid ?? '');
        return;
      case 'orphan-dependents':
        for (const dependent of dependents) await dropOwners(options, dependent, [uid]);
        await replace(options, stored, withoutFinalizer(object, ORPHAN));
        return;
      case 'remove-finalizer':
        await replace(options, stored, withoutFinalizer(object, plan.finalizer));
        return;
      case 'drop-owners':
        await dropOwners(options, stored, plan.uids);
        return;
      case 'delete': {
        if (plan.unblock && blocksOwners(object)) {
          await replace(options, stored, unblocked(object)); // the resulting event enqueues it again
          return;
        }
        await remove(options, stored, plan.propagation);
      }
    }
  };

  const react = (place: Place, event: Pick<StoredEvent, 'type' | 'object' | 'previous'>) => {
    const { object, previous } = event;
    const uid = object.metadata.uid ?? '';
    if (isEvent(place)) return;
    graph.observe(place, event);
    if (event.type === 'DELETED') {
      for (const dependent of graph.dependentsOf(uid)) add(dependent.object.metadata.uid ?? '');
    } else if (object.metadata.ownerReferences !== undefined || isMarked(object)) {
      add(uid);
    }
    for (const owner of [...ownersOf(object), ...(previous === undefined ? [] : ownersOf(previous))]) {
      const stored = graph.get(owner);
      if (stored !== undefined && isWaiting(stored.object)) add(owner);
    }
    if (place.resource === 'customresourcedefinitions') for (const each of awaitingKinds) add(each);
  };

  const unwatch = storage.watchAll(react);
  for (const { place, object } of options.stored()) react(place, { type: 'ADDED', object });
  return () => {
    unwatch();
    queue.stop();
  };
}

/** Events expire soon; upstream ignores them too. */
const isEvent = ({ group, resource }: Place) =>
  resource === 'events' && (group === '' || group === 'events.k8s.io');

const isMarked = ({ metadata }: ApiObject) => metadata.deletionTimestamp !== undefined;

/** An owner reference applies within the namespace of its dependent. */
function ownerState(
  { storage, findKind }: Pick<GarbageCollectorOptions, 'storage' | 'findKind'>,
  { metadata: { namespace = '' } }: ApiObject,
  { apiVersion, kind, name, uid }: OwnerReference,
): OwnerState {
  const found = findKind(apiVersion, kind);
  if (found === undefined || (found.namespaced && namespace === '')) return 'unknown';
  const owner = storage.get(found.place, { namespace: found.namespaced ? namespace : '', name });
  if (owner?.metadata.uid !== uid) return 'gone';
  return isWaiting(owner) ? 'waiting' : 'solid';
}

function withoutFinalizer(object: ApiObject, finalizer: string): ApiObject {
  const left = (object.metadata.finalizers ?? []).filter((name) => name !== finalizer);
  return withMeta(object, { finalizers: left.length === 0 ? undefined : left });
}

const blocksOwners = ({ metadata }: ApiObject) =>
  metadata.ownerReferences?.some(({ blockOwnerDeletion }) => blockOwnerDeletion === true) === true;

function unblocked(object: ApiObject): ApiObject {
  const ownerReferences = object.metadata.ownerReferences?.map((reference) => ({
    ...reference,
    blockOwnerDeletion: false,
  }));
  return withMeta(object, { ownerReferences });
}

async function dropOwners(
  options: Pick<GarbageCollectorOptions, 'replaceObject'>,
  stored: Stored,
  uids: readonly string[],
): Promise<void> {
  const left = (stored.object.metadata.ownerReferences ?? []).filter(({ uid }) => !uids.includes(uid));
  await replace(
    options,
    stored,
    withMeta(stored.object, { ownerReferences: left.length === 0 ? undefined : left }),
  );
}

async function replace(
  { replaceObject }: Pick<GarbageCollectorOptions, 'replaceObject'>,
  { place }: Stored,
  object: ApiObject,
): Promise<void> {
  await unlessGone(() => replaceObject(place, object));
}

async function remove(
  { deleteObject }: Pick<GarbageCollectorOptions, 'deleteObject'>,
  { place, object }: Stored,
  propagationPolicy: Propagation,
): Promise<void> {
  const { namespace = '', name = '', uid = '', resourceVersion = '' } = object.metadata;
  const options = { propagationPolicy, preconditions: { uid, resourceVersion } };
  await unlessGone(() => deleteObject(place, { namespace, name }, options));
}

/** Treats 404 as success: another client was faster. */
async function unlessGone(write: () => void | Promise<void>): Promise<void> {
  try {
    await write();
  } catch (error) {
    if (!(error instanceof ApiFailure) || error.status.code !== 404) throw error;
  }
}

/** Finalizers that request work from the garbage collector. */
const ORPHAN = 'orphan';

const FOREGROUND = 'foregroundDeletion';

type Propagation = 'Background' | 'Foreground' | 'Orphan';

/**
 * `solid`: the owner exists. `gone`: it does not. `waiting`: it is being deleted and waits for its dependents.
 * `unknown`: its kind is not served, or it cannot own this object.
 */
type OwnerState = 'solid' | 'gone' | 'waiting' | 'unknown';

interface GarbageState {
  readonly object: ApiObject;
  readonly dependents: readonly ApiObject[];
  readonly ownerState: (reference: OwnerReference) => OwnerState;
}

type GarbagePlan =
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
function planGarbage({ object, dependents, ownerState }: GarbageState): GarbagePlan {
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
const isWaiting = ({ metadata }: ApiObject): boolean =>
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

interface Stored {
  readonly place: Place;
  readonly object: ApiObject;
}

/** Owners and dependents by uid. An owner need not exist. */
interface OwnerGraph {
  readonly observe: (place: Place, event: Pick<StoredEvent, 'type' | 'object'>) => void;
  readonly get: (uid: string) => Stored | undefined;
  readonly dependentsOf: (uid: string) => readonly Stored[];
}

const ownersOf = ({ metadata }: ApiObject): readonly string[] =>
  (metadata.ownerReferences ?? []).map(({ uid }) => uid);

function createOwnerGraph(): OwnerGraph {
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

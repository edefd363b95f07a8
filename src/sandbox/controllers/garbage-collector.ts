import type { OwnerReference } from '../../json/kube-object.ts';
import { withMeta, type ApiObject } from '../../machinery/api-object.ts';
import { ApiFailure } from '../../machinery/failure.ts';
import type { Place, StoredEvent } from '../../machinery/storage/stored.ts';
import type { Api } from '../pipeline/context.ts';
import { FOREGROUND, ORPHAN } from '../pipeline/delete.ts';
import type { Propagation } from '../pipeline/options.ts';
import { ask } from './ask.ts';
import { createWorkQueue } from './work-queue.ts';

const ACCOUNT = 'generic-garbage-collector';

interface Stored {
  readonly place: Place;
  readonly object: ApiObject;
}

/** Deletes objects whose owners are gone, and completes foreground and orphaning deletions (pkg/controller/garbagecollector). */
export function startGarbageCollector(api: Api, onError: (error: unknown) => void): () => void {
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
    const plan = planGarbage(
      object,
      dependents.map((one) => one.object),
      (reference) => ownerState(api, object, reference),
    );
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
        for (const dependent of dependents) await dropOwners(api, dependent, [uid]);
        await replace(api, stored, withoutFinalizer(object, ORPHAN));
        return;
      case 'complete-foreground':
        await replace(api, stored, withoutFinalizer(object, FOREGROUND));
        return;
      case 'drop-owners':
        await dropOwners(api, stored, plan.uids);
        return;
      case 'delete':
        // The event of the update enqueues it again.
        if (plan.unblock && blocksOwners(object)) await replace(api, stored, unblocked(object));
        else await remove(api, stored, plan.propagation);
    }
  };

  const react = (place: Place, event: Pick<StoredEvent, 'type' | 'object' | 'previous'>) => {
    const { object, previous } = event;
    const uid = object.metadata.uid ?? '';
    if (isEvent(place)) return;
    graph.observe(place, event);
    if (event.type === 'DELETED') {
      for (const dependent of graph.dependentsOf(uid)) add(dependent.object.metadata.uid ?? '');
    } else if (
      object.metadata.ownerReferences !== undefined ||
      object.metadata.deletionTimestamp !== undefined
    ) {
      add(uid);
    }
    for (const owner of [...ownersOf(object), ...(previous === undefined ? [] : ownersOf(previous))]) {
      const stored = graph.get(owner);
      if (stored !== undefined && isWaiting(stored.object)) add(owner);
    }
    if (place.resource === 'customresourcedefinitions') for (const each of awaitingKinds) add(each);
  };

  const unwatch = api.storage.watchAll(react);
  for (const { group, resource, version, storageVersion } of api.registry.all()) {
    if (version !== storageVersion) continue;
    const place = { group, resource };
    for (const object of api.storage.list(place).items) react(place, { type: 'ADDED', object });
  }
  return () => {
    unwatch();
    queue.stop();
  };
}

/** Events expire soon; upstream ignores them too. */
const isEvent = ({ group, resource }: Place) =>
  resource === 'events' && (group === '' || group === 'events.k8s.io');

/** An owner reference applies within the namespace of its dependent. */
function ownerState(
  { storage, registry }: Api,
  { metadata: { namespace = '' } }: ApiObject,
  { apiVersion, kind, name, uid }: OwnerReference,
): OwnerState {
  const type = registry.findKind(apiVersion, kind);
  if (type === undefined || (type.namespaced && namespace === '')) return 'unknown';
  const owner = storage.get(type, { namespace: type.namespaced ? namespace : '', name });
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

async function dropOwners(api: Api, stored: Stored, uids: readonly string[]): Promise<void> {
  const left = (stored.object.metadata.ownerReferences ?? []).filter(({ uid }) => !uids.includes(uid));
  const ownerReferences = left.length === 0 ? undefined : left;
  await replace(api, stored, withMeta(stored.object, { ownerReferences }));
}

async function replace(api: Api, { place }: Stored, object: ApiObject): Promise<void> {
  const { namespace = '', name = '' } = object.metadata;
  await unlessGone(ask(api, ACCOUNT, 'update', place, { namespace, name }, object));
}

async function remove(api: Api, { place, object }: Stored, propagationPolicy: Propagation): Promise<void> {
  const { namespace = '', name = '', uid = '', resourceVersion = '' } = object.metadata;
  const options = { kind: 'DeleteOptions', propagationPolicy, preconditions: { uid, resourceVersion } };
  await unlessGone(ask(api, ACCOUNT, 'delete', place, { namespace, name }, options));
}

/** Treats 404 as success: another client was faster. */
async function unlessGone(write: Promise<void>): Promise<void> {
  try {
    await write;
  } catch (error) {
    if (!(error instanceof ApiFailure) || error.status.code !== 404) throw error;
  }
}

/** `waiting`: the owner is being deleted and waits for its dependents. `unknown`: not served, or it cannot own this object. */
type OwnerState = 'solid' | 'gone' | 'waiting' | 'unknown';

type GarbagePlan =
  | { readonly kind: 'keep' }
  /** Undecided until the kinds of its owners are served. */
  | { readonly kind: 'await-kinds' }
  /** Removes the reference from its dependents, then the finalizer from the object. */
  | { readonly kind: 'orphan-dependents' }
  /** Processes its dependents: each is deleted or loses its reference. */
  | { readonly kind: 'await-dependents' }
  /** Its dependents are gone. */
  | { readonly kind: 'complete-foreground' }
  | { readonly kind: 'drop-owners'; readonly uids: readonly string[] }
  /** With `unblock`, its owners first stop waiting for it, because it waits for one of them. */
  | { readonly kind: 'delete'; readonly propagation: Propagation; readonly unblock: boolean };

/** @see kubernetes/pkg/controller/garbagecollector/garbagecollector.go, attemptToDeleteItem */
function planGarbage(
  object: ApiObject,
  dependents: readonly ApiObject[],
  stateOf: (reference: OwnerReference) => OwnerState,
): GarbagePlan {
  if (object.metadata.deletionTimestamp !== undefined) return planMarked(object, dependents);
  const references = object.metadata.ownerReferences ?? [];
  if (references.length === 0) return { kind: 'keep' };
  const states = references.map(stateOf);
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
  return { kind: dependents.some(blocks) ? 'await-dependents' : 'complete-foreground' };
}

/** An existing finalizer decides the propagation. */
function propagationOf({ metadata: { finalizers = [] } }: ApiObject): Propagation {
  if (finalizers.includes(ORPHAN)) return 'Orphan';
  return finalizers.includes(FOREGROUND) ? 'Foreground' : 'Background';
}

const ownersOf = ({ metadata }: ApiObject): readonly string[] =>
  (metadata.ownerReferences ?? []).map(({ uid }) => uid);

function createOwnerGraph() {
  const objects = new Map<string, Stored>();
  const dependents = new Map<string, Set<string>>();
  return {
    observe: (place: Place, { type, object }: Pick<StoredEvent, 'type' | 'object'>): void => {
      const { uid } = object.metadata;
      if (uid === undefined) return;
      const before = objects.get(uid);
      for (const owner of before === undefined ? [] : ownersOf(before.object)) {
        const linked = dependents.get(owner);
        linked?.delete(uid);
        if (linked?.size === 0) dependents.delete(owner);
      }
      if (type === 'DELETED') {
        objects.delete(uid);
        return;
      }
      objects.set(uid, { place, object });
      for (const owner of ownersOf(object))
        dependents.set(owner, (dependents.get(owner) ?? new Set<string>()).add(uid));
    },
    get: (uid: string): Stored | undefined => objects.get(uid),
    dependentsOf: (uid: string): readonly Stored[] =>
      [...(dependents.get(uid) ?? [])].flatMap((each) => objects.get(each) ?? []),
  };
}

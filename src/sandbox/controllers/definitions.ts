import { toTimestamp } from '../../json/kube-object.ts';
import { withMeta, type ApiObject } from '../../machinery/api-object.ts';
import {
  acceptedNames,
  CLEANUP_FINALIZER,
  DEFINITIONS,
  groupOf,
  isAwaitingCleanup,
  isConditionTrue,
} from '../../machinery/crd/definition.ts';
import { planDefinitionStatus, setCondition } from '../../machinery/crd/status.ts';
import type { Place } from '../../machinery/storage/stored.ts';
import type { Api } from '../pipeline/context.ts';

/** Runs in microtasks: after a write and any `await`, the definition is established. */
export function startDefinitionsController(
  { storage, now }: Api,
  deleteAll: (place: Place) => void,
): () => void {
  const queue = new Set<string>();
  /** Deleted definitions by the place of the objects that they wait for. */
  const waiting = new Map<string, string>();

  const drain = () => {
    for (const name of queue) {
      queue.delete(name);
      reconcile(name);
    }
  };
  const enqueue = (name: string) => {
    if (queue.size === 0) queueMicrotask(drain);
    queue.add(name);
  };
  /** Retries definitions in the group, because a name may have become free. */
  const enqueueUnaccepted = (group: string) => {
    for (const other of storage.list(DEFINITIONS).items) {
      if (groupOf(other) === group && !isConditionTrue(other, 'NamesAccepted')) enqueue(nameOf(other));
    }
  };

  const reconcile = (name: string) => {
    const crd = storage.get(DEFINITIONS, { namespace: '', name });
    if (crd === undefined) return;
    const others = storage.list(DEFINITIONS).items.filter((other) => other !== crd);
    const planned = planDefinitionStatus(crd, others, toTimestamp(now()));
    const written = planned === crd ? crd : storage.replace(DEFINITIONS, planned, versionOf(crd));
    if (isAwaitingCleanup(written)) cleanUp(written);
  };

  const cleanUp = (crd: ApiObject) => {
    const place: Place = { group: groupOf(crd), resource: acceptedNames(crd).plural };
    const wasServed = isConditionTrue(crd, 'Established');
    if (wasServed && storage.count(place) > 0) {
      waiting.set(keyOf(place), nameOf(crd));
      deleteAll(place);
      if (storage.count(place) > 0) return;
    }
    waiting.delete(keyOf(place));
    release(crd, wasServed);
  };

  const release = (crd: ApiObject, wasServed: boolean) => {
    const finalizers = crd.metadata.finalizers?.filter((finalizer) => finalizer !== CLEANUP_FINALIZER) ?? [];
    if (finalizers.length === 0) {
      storage.remove(DEFINITIONS, { namespace: '', name: nameOf(crd) }, versionOf(crd));
      return;
    }
    const [reason, message] = wasServed
      ? (['InstanceDeletionCompleted', 'removed all instances'] as const)
      : (['NeverEstablished', 'resource was never established'] as const);
    const cleaned = setCondition(
      withMeta(crd, { finalizers }),
      { type: 'Terminating', status: 'False', reason, message },
      toTimestamp(now()),
    );
    storage.replace(DEFINITIONS, cleaned, versionOf(crd));
  };

  for (const crd of storage.list(DEFINITIONS).items) enqueue(nameOf(crd));
  const stopWatching = storage.watchAll((place, { type, object }) => {
    if (keyOf(place) === keyOf(DEFINITIONS)) {
      enqueue(nameOf(object));
      if (type !== 'ADDED') enqueueUnaccepted(groupOf(object));
      return;
    }
    const definition = type === 'DELETED' ? waiting.get(keyOf(place)) : undefined;
    if (definition !== undefined) enqueue(definition);
  });
  return () => {
    stopWatching();
    queue.clear();
  };
}

const nameOf = ({ metadata }: ApiObject) => metadata.name ?? '';
const versionOf = ({ metadata }: ApiObject) => metadata.resourceVersion ?? '';
const keyOf = ({ group, resource }: Place) => `${resource}.${group}`;

/** The cluster as a controller sees it: its stores where they have its own writes, and live reads. */
import type { ReadKind } from '../../admission/handlers/compile-handler.ts';
import { selectorText } from '../../admission/handlers/reader.ts';
import type { CompiledController } from '../../controllers/compile-controller.ts';
import { CONTROLLER_LABEL, OWNER_LABEL } from '../../controllers/owned-objects.ts';
import type { ControllerWorld, Place, ServedKind } from '../../controllers/world.ts';
import {
  groupResourceName,
  keyOf,
  objectKey,
  type GroupResource,
  type KubeObject,
  type ObjectMeta,
} from '../../json/kube-object.ts';
import { isEqual, objectIn } from '../../json/json.ts';
import { matchesSelector } from '../../json/label-selector.ts';
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import { deepFreeze } from '../../json/objects.ts';
import { dropManagedFields } from '../../kube/watch/change.ts';
import { NotLeaderError } from '../../kube/lease/fence.ts';
import type { Resource } from '../../kube/object.ts';
import { regarding, type RecordingContext } from '../controller.ts';
import { listIn } from '../namespaces.ts';
import { isSame, writeKey, type ControllerStores } from './controller-stores.ts';
import type { OwnWrites } from './own-writes.ts';

/** Users and tools write annotations, and each such write is a conflict: another pass would meet the next one. */
const ATTEMPTS = 5;

export function createClusterWorld(
  context: Pick<RecordingContext, 'client' | 'discovery' | 'namespaces' | 'record' | 'log'>,
  controller: CompiledController,
  kinds: readonly ServedKind[],
  stores: ControllerStores,
  writes: OwnWrites,
): ControllerWorld {
  const { client, discovery, namespaces, record, log } = context;
  const storeOf = (kind: GroupResource) =>
    isSame(kind, controller.watched)
      ? stores.primary.store
      : stores.owned.find((one) => isSame(one.kind, kind))?.store;
  const resourceOf = async (kind: ReadKind, signal: AbortSignal): Promise<Resource> => {
    const served = kinds.find((one) => isSame(one, kind)) ?? (await discovery.resolve(kind, signal));
    if (served === undefined) throw new Error(`the API server does not serve ${groupResourceName(kind)}`);
    return { ...served, version: kind.version ?? served.version };
  };
  /** Writes over the version that the pass knows, or over a later one that differs only in labels and annotations. */
  const writeOver = async (
    kind: ServedKind,
    object: KubeObject,
    write: (precondition: ObjectMeta) => Promise<KubeObject>,
    signal: AbortSignal,
  ): Promise<KubeObject> => {
    let known = object;
    for (let attempt = 1; ; attempt += 1) {
      try {
        const { uid = '', resourceVersion = '' } = known.metadata ?? {};
        const written = await write({ uid, resourceVersion });
        writes.wrote(writeKey(kind, keyOf(written)), written, known === object);
        return deepFreeze(dropManagedFields(written));
      } catch (error) {
        if (!isConflict(error) || attempt === ATTEMPTS) throw error;
        const live = await client.get<KubeObject>(kind, placeOf(object), { signal });
        if (live === undefined || !isSameState(live, object)) throw error;
        known = live;
      }
    }
  };
  /** Its CustomResourceDefinition was deleted, and all objects with it. */
  const isUnserved = async (kind: GroupResource, signal: AbortSignal): Promise<boolean> => {
    discovery.forget(kind);
    return (await discovery.resolve(kind, signal)) === undefined;
  };
  const select = async (
    kind: ReadKind,
    namespace: string | undefined,
    selector: string | undefined,
    signal: AbortSignal,
  ) => {
    const options = { labelSelector: selector, metadataOnly: kind.metadataOnly, signal };
    const places = namespace === undefined ? namespaces : [namespace];
    const found = await listIn<KubeObject>(client, await resourceOf(kind, signal), places, options);
    return deepFreeze(found.map(dropManagedFields));
  };

  return {
    now: () => new Date(),
    served: () => Promise.resolve(kinds),
    get: async (kind, given, signal) => {
      const isClusterScoped = kinds.find((one) => isSame(one, kind))?.namespaced === false;
      const place = isClusterScoped ? { name: given.name } : given;
      const stored = storeOf(kind)?.get(objectKey(place));
      if (stored !== undefined && writes.isSeen(writeKey(kind, objectKey(place)), stored)) return stored;
      const resource = await resourceOf(kind, signal);
      const at = resource.namespaced ? place : { name: place.name };
      const found = kind.metadataOnly
        ? await client.getMetadata(resource, at, { signal })
        : await client.get<KubeObject>(resource, at, { signal });
      return found && deepFreeze(dropManagedFields(found));
    },
    list: async (kind, namespace, selector, signal) => {
      const { store, hasSynced } = stores.primary;
      const isComplete =
        isSame(kind, controller.watched) && hasSynced() && writes.areSeen(writeKey(kind, ''), store.get);
      if (!isComplete) return await select(kind, namespace, selectorText(selector), signal);
      return store
        .list()
        .filter(
          ({ metadata }) =>
            (namespace === undefined || metadata?.namespace === namespace) &&
            matchesSelector(selector, metadata?.labels ?? {}),
        );
    },
    owned: (mark) => Promise.resolve(stores.withMark(mark)),
    ownedLive: async (mark, signal) => {
      const selector = `${CONTROLLER_LABEL}=${controller.name},${OWNER_LABEL}=${mark}`;
      const lists = await Promise.all(
        kinds.slice(1).map(async (kind) => {
          const found = await select({ ...kind, metadataOnly: false }, undefined, selector, signal).catch(
            async (error: unknown) => {
              if (isNotFound(error) && (await isUnserved(kind, signal))) return [];
              throw error;
            },
          );
          return found.map((object) => ({ kind, object }));
        }),
      );
      return lists.flat();
    },
    apply: async (kind, object, fieldManager, force, signal) => {
      const stored = await client.apply<KubeObject>(kind, object, { fieldManager, force, signal });
      writes.applied(writeKey(kind, keyOf(stored)), { kind, object: stored });
      return deepFreeze(stored);
    },
    remove: async (kind, object, signal) => {
      const { uid } = object.metadata ?? {};
      await client.delete(kind, placeOf(object), {
        preconditions: { uid },
        propagationPolicy: 'Background',
        signal,
      });
      writes.removed(writeKey(kind, keyOf(object)));
    },
    setFinalizers: async (kind, object, finalizers, signal) => {
      const write = (precondition: ObjectMeta) => {
        const body = { metadata: { ...precondition, finalizers } };
        return client.patchMerge<KubeObject>(kind, placeOf(object), body, { signal });
      };
      try {
        return await writeOver(kind, object, write, signal);
      } catch (error) {
        if (isNotFound(error)) return undefined;
        throw error;
      }
    },
    patchStatus: async (kind, object, status, signal) => {
      const write = (metadata: ObjectMeta) =>
        client.patchStatus<KubeObject>(kind, placeOf(object), { metadata, status }, { signal });
      try {
        return await writeOver(kind, object, write, signal);
      } catch (error) {
        if (!isNotFound(error)) throw error;
        throw new Error(
          `the API server has no status of ${kind.kind} ${keyOf(object)}: unless it was just deleted, its ` +
            'CustomResourceDefinition needs subresources.status',
          { cause: error },
        );
      }
    },
    event: (object, type, reason, message) => {
      record({ regarding: regarding(object), type, reason, message });
    },
    isPassing: (error) => isConflict(error) || error instanceof NotLeaderError,
    log: {
      debug: (message, fields = {}) => log.debug({ fields }, message),
      info: (message, fields = {}) => log.info({ fields }, message),
      warn: (message, fields = {}) => log.warn({ fields }, message),
      error: (message, fields = {}) => log.error({ fields }, message),
    },
  };
}

/**
 * Whether a pass over one would do the same to the other: another leader writes the status, and a user the generation.
 * A change of labels or annotations causes a pass of its own.
 */
const isSameState = (live: KubeObject, object: KubeObject): boolean =>
  object.metadata?.generation !== undefined &&
  live.metadata?.uid === object.metadata.uid &&
  live.metadata?.generation === object.metadata.generation &&
  isEqual(live.metadata.finalizers ?? [], object.metadata.finalizers ?? []) &&
  isEqual(objectIn(live, 'status'), objectIn(object, 'status'));

const placeOf = ({ metadata = {} }: KubeObject): Place => ({
  namespace: metadata.namespace,
  name: metadata.name ?? '',
});

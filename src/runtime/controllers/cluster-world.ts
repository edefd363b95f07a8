/** The cluster as a controller sees it: its stores where they have its own writes, and live reads. */
import { isDeepStrictEqual } from 'node:util';

import type { ReadKind } from '../../admission/handlers/compile-handler.ts';
import { selectorText } from '../../admission/handlers/reader.ts';
import type { CompiledController, CompiledSource } from '../../controllers/compile-controller.ts';
import {
  contentOf,
  CONTROLLER_LABEL,
  nameOf,
  OWNER_LABEL,
  ownerMark,
} from '../../controllers/owned-objects.ts';
import {
  OutdatedError,
  type ControllerWorld,
  type Owned,
  type Place,
  type Query,
  type ServedKind,
  type UnreadableKind,
} from '../../controllers/world.ts';
import {
  type GroupResource,
  groupResourceName,
  keyOf,
  type KubeObject,
  objectKey,
  type ObjectMeta,
} from '../../json/kube-object.ts';
import { deepFreeze, isEqual, objectIn } from '../../json/json.ts';
import { matchesSelector } from '../../json/label-selector.ts';
import { insteadOf, isConflict, isNotFound } from '../../kube/api-error.ts';
import { type Change, dropManagedFields, isOlder } from '../../kube/watch.ts';
import { NotLeaderError } from '../../kube/lease/fence.ts';
import type { Resource } from '../../kube/object.ts';
import { type RecordingContext, regarding } from '../controller.ts';
import { listIn } from '../namespaces.ts';
import { appliedKey, noteOrphaning, type Settled } from '../../controllers/pass-state.ts';
import { versionsOf, watch, type WatchContext, type Watching } from '../watch.ts';
import { atMostEvery, type Clock, systemClock } from '../../kube/clock.ts';
import { toError } from '../../admission/handlers/errors.ts';
import { inHandler } from '../handlers/stray-errors.ts';
import {
  isIndexed,
  keysOf,
  type ObjectRef,
  valuesOf,
  type WatchLookup,
} from '../../controllers/watch-map.ts';

/** Users and tools write annotations, and each such write is a conflict: another pass would meet the next one. */
const ATTEMPTS = 5;

export function createClusterWorld(
  context: Pick<RecordingContext, 'client' | 'discovery' | 'namespaces' | 'record' | 'log'> & {
    readonly clock: Clock;
    readonly metric: ControllerWorld['metric'];
  },
  controller: CompiledController,
  kinds: readonly ServedKind[],
  stores: ControllerStores,
  { writes, unreadable }: { readonly writes: OwnWrites; readonly unreadable: readonly UnreadableKind[] },
): ControllerWorld {
  const { client, clock, discovery, metric, namespaces, record, log } = context;
  /** An event of `watches` can be newer than the other stores, and no later event would correct a pass. */
  const isSource = (kind: GroupResource) => controller.watches.some((source) => isSame(source.kind, kind));
  const storeOf = (kind: GroupResource) => {
    if (isSource(kind)) return undefined;
    return isSame(kind, controller.watched)
      ? stores.primary
      : stores.owned.find((one) => isSame(one.kind, kind));
  };
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
  // The store has reported an index that fails. Without it, the object is not found there, either.
  const hasIndexed = (index: Query['index'], object: KubeObject) =>
    isIndexed(controller.indexes, index, object, () => undefined);
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
    now: () => new Date(clock.now()),
    served: () => Promise.resolve(kinds),
    unreadable,
    get: async (kind, given, signal) => {
      const isClusterScoped = kinds.find((one) => isSame(one, kind))?.namespaced === false;
      const place = isClusterScoped ? { name: given.name } : given;
      const stored = storeOf(kind)?.store.get(objectKey(place));
      if (stored !== undefined && writes.isSeen(writeKey(kind, objectKey(place)), stored)) return stored;
      const resource = await resourceOf(kind, signal);
      const at = resource.namespaced ? place : { name: place.name };
      const found = kind.metadataOnly
        ? await client.getMetadata(resource, at, { signal })
        : await client.get<KubeObject>(resource, at, { signal });
      return found && deepFreeze(dropManagedFields(found));
    },
    list: async (kind, { namespace, selector, index }, signal) => {
      const { store, hasSynced } = stores.primary;
      const isComplete =
        storeOf(kind) === stores.primary && hasSynced() && writes.areSeen(writeKey(kind, ''), store.get);
      const [first, ...others] = index;
      if (!isComplete) {
        const found = await select(kind, namespace, selectorText(selector), signal);
        return found.filter((object) => hasIndexed(index, object));
      }
      return (first === undefined ? store.list() : store.byIndex(indexName(first[0]), first[1])).filter(
        (object) =>
          (namespace === undefined || object.metadata?.namespace === namespace) &&
          matchesSelector(selector, object.metadata?.labels ?? {}) &&
          hasIndexed(others, object),
      );
    },
    owned: (mark) => Promise.resolve(stores.withMark(mark)),
    ownedLive: async (mark, signal) => {
      if (unreadable[0] !== undefined) throw new Error(unreadable[0].problem); // else objects of this kind would remain
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
    apply: async (kind, object, how, signal) => {
      const { fieldManager } = controller;
      const options = { fieldManager, force: how !== 'create', signal };
      const stored = await client.apply<KubeObject>(kind, object, options);
      writes.applied(writeKey(kind, keyOf(stored)), { kind, object: stored });
      return deepFreeze(stored);
    },
    expectCurrent: async (kind, object, signal) => {
      const live = await client.get<KubeObject>(kind, placeOf(object), { signal });
      if (live === undefined || !isDeepStrictEqual(contentOf(live), contentOf(object)))
        throw new OutdatedError(`${nameOf(object)} has changed during the pass`);
    },
    withManagers: async (kind, object, signal) => {
      try {
        return await client.getMetadata(kind, placeOf(object), { signal });
      } catch (error) {
        log.debug({ err: error }, 'could not read who changed an object');
        return undefined;
      }
    },
    remove: async (kind, object, signal) => {
      const { uid, resourceVersion } = object.metadata ?? {};
      const preconditions = { uid, resourceVersion };
      const options = { preconditions, propagationPolicy: 'Background', signal } as const;
      await client.delete(kind, placeOf(object), options);
      writes.removed(writeKey(kind, keyOf(object)));
    },
    setFinalizers: async (kind, object, finalizers, signal) => {
      const write = (precondition: ObjectMeta) => {
        const body = { metadata: { ...precondition, finalizers } };
        return client.patchMerge<KubeObject>(kind, placeOf(object), body, { signal });
      };
      return await writeOver(kind, object, write, signal).catch(insteadOf(isNotFound, undefined));
    },
    patchStatus: async (kind, object, status, signal) => {
      const write = (metadata: ObjectMeta) =>
        client.patchStatus<KubeObject>(kind, placeOf(object), { metadata, status }, { signal });
      try {
        return await writeOver(kind, object, write, signal);
      } catch (error) {
        if (!isNotFound(error)) throw error;
        throw new Error(
          `the status of ${kind.kind} ${keyOf(object)} was not found: unless the object was just deleted, its ` +
            'CustomResourceDefinition needs subresources.status',
          { cause: error },
        );
      }
    },
    metric,
    event: (object, type, reason, message) => {
      record({ regarding: regarding(object), type, reason, message });
    },
    isPassing: (error) =>
      isConflict(error) || error instanceof NotLeaderError || error instanceof OutdatedError,
    log: {
      debug: (message, fields = {}) => log.debug({ fields }, message),
      info: (message, fields = {}) => log.info({ fields }, message),
      warn: (message, fields = {}) => log.warn({ fields }, message),
      error: (message, fields = {}) => log.error({ fields }, message),
    },
  };
}

/** Whether a pass would do the same to both. A change of labels or annotations causes a separate pass. */
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

/** A kind in `watches`. */
export interface ServedSource {
  readonly kind: ServedKind;
  readonly source: CompiledSource;
}

interface WatchParts {
  readonly sources: readonly ServedSource[];
  readonly writes: OwnWrites;
  readonly settled: Settled;
  /** Whether `enqueue` takes keys already. */
  readonly isStarted: () => boolean;
}

const BY_MARK = 'mark';

export const isSame = (a: GroupResource, b: GroupResource): boolean =>
  a.group === b.group && a.resource === b.resource;

export type ControllerStores = ReturnType<typeof watchKinds>;
export const writeKey = (kind: GroupResource, key: string): string => `${groupResourceName(kind)} ${key}`;

/** A rejection without an `await` in an author's function must not end the process. */
const attributed =
  <Args extends unknown[], T>({ name }: CompiledController, work: (...args: Args) => T) =>
  (...args: Args): T =>
    inHandler(name, () => work(...args));

/** The store has an index of its own besides those of the author. */
const indexName = (name: string): string => `author:${name}`;

function indexesOf(controller: CompiledController, { log }: WatchContext, signal: AbortSignal) {
  const authors = Object.entries(controller.indexes).map(([name, index]) => {
    const onError = rarely((failure) => {
      log.warn({ ...failure, index: name }, 'an index of the controller failed, so it lacks an object');
    }, signal);
    const isolated = attributed(controller, index);
    const values = (object: KubeObject) => valuesOf(isolated, object, (error) => onError(error, object));
    return [indexName(name), values] as const;
  });
  return {
    ...Object.fromEntries(authors),
    [BY_MARK]: (object: KubeObject) => [ownerMark(controller, keyOf(object))],
  };
}

/** The stores of one controller. `enqueue` gets the key of each object that needs a pass. */
export function watchKinds(
  context: WatchContext,
  controller: CompiledController,
  [watched, ...owns]: readonly [ServedKind, ...(readonly ServedKind[])],
  { sources, writes, settled, isStarted }: WatchParts,
  enqueue: (key: string) => void,
  signal: AbortSignal,
) {
  const onWhenFailed = whenFailed(context, signal);
  const isWatchedWanted = controller.when && attributed(controller, controller.when);
  const primary: Watching<KubeObject> = watch<KubeObject>(
    context,
    {
      resource: watched,
      transform: dropManagedFields,
      indexes: indexesOf(controller, context, signal),
      onChange: (key, change) => {
        // An object of the same kind that the controller applied needs its own pass.
        if (needsPass(change, isWatchedWanted, onWhenFailed) && causeOf(watched, change) !== 'patch')
          enqueue(key);
        writes.saw(writeKey(watched, key), change);
        noteOrphaning(settled, change.object, change.kind === 'deleted');
      },
    },
    signal,
  );
  const owned = owns.map((kind) => {
    const store = watch<KubeObject>(
      context,
      {
        resource: kind,
        transform: dropManagedFields,
        labelSelector: `${CONTROLLER_LABEL}=${controller.name}`,
        indexes: { [BY_MARK]: markOf },
        onChange: (key, change) => {
          const cause = causeOf(kind, change);
          // Reads of the watched kind use the other store.
          if (!isSame(kind, watched)) writes.saw(writeKey(kind, key), change);
          if (change.kind === 'deleted') settled.delete(appliedKey(kind, change.object));
          if (cause === 'apply') return;
          for (const mark of marksOf(change))
            for (const owner of primary.store.byIndex(BY_MARK, mark)) enqueue(keyOf(owner));
        },
      },
      signal,
    );
    return { kind, ...store };
  });
  const lookup: WatchLookup = {
    byIndex: (index, value) => {
      if (!Object.hasOwn(controller.indexes, index)) throw new TypeError(`"${index}" is not in indexes`);
      return primary.store.byIndex(indexName(index), value).map(refOf);
    },
    all: () => primary.store.list().map(refOf),
    watched,
  };
  const mapped = sources.map(({ kind, source }) => {
    const { selector } = source;
    const map = attributed(controller, source.map);
    const when = source.when && attributed(controller, source.when);
    const onFailed = whenFailed(context, signal);
    const onMapFailed = rarely((failure) => {
      context.log.warn(failure, 'a function "map" failed, so each object gets a pass');
      primary.store.keys().forEach(enqueue);
    }, signal);
    return watch<KubeObject>(
      context,
      {
        resource: kind,
        transform: dropManagedFields,
        labelSelector: selectorText(selector),
        metadataOnly: source.kind.metadataOnly,
        // The first lists are older than the first pass of each object.
        onChange: (_key, change) => {
          if (!isStarted() || (change.kind === 'changed' && !isWanted(when, change, onFailed))) return;
          try {
            const versions = versionsOf(change);
            const existing = () => primary.store.keys().length;
            const keys = versions.flatMap((one) =>
              keysOf(map(one, lookup), one, watched.namespaced, existing),
            );
            // The object itself gets its passes by `watch`: here, each status that a pass writes would cause the next pass.
            const self = isSame(kind, watched) ? keyOf(change.object) : undefined;
            for (const key of new Set(keys)) if (key !== self) enqueue(key);
          } catch (error) {
            onMapFailed(error, change.object);
          }
        },
      },
      signal,
    );
  });
  const causeOf = (kind: ServedKind, change: Change<KubeObject>) =>
    writes.causeOf(writeKey(kind, keyOf(change.object)), change);
  return {
    primary,
    owned,
    /** Includes what was applied a moment ago, with its proof: no other pass would prune it. */
    withMark: (mark: string): readonly Owned[] => {
      const latest = new Map<string, Owned>();
      for (const { kind, store } of owned)
        for (const object of store.byIndex(BY_MARK, mark))
          latest.set(writeKey(kind, keyOf(object)), { kind, object });
      for (const [key, write] of writes.unseen(mark)) {
        const stored = latest.get(key);
        if (stored === undefined || isOlder(versionOf(stored), versionOf(write))) latest.set(key, write);
      }
      return [...latest.values()];
    },
    /** The kinds whose list or watch fails for some time. */
    failures: () =>
      [
        { kind: watched, ...primary },
        ...owned,
        ...mapped.map((one, index) => ({ kind: sources[index]?.kind ?? watched, ...one })),
      ]
        .filter((one) => one.failingMs() > FAILING_MS)
        .map(({ kind, failure }) => ({ kind, error: failure() })),
    whenSynced: async (waiting: AbortSignal) => {
      await Promise.all([primary, ...owned, ...mapped].map((one) => one.whenSynced(waiting)));
    },
  };
}

/** An API server that restarts is no news. */
const FAILING_MS = 10_000;

/** A broken function must not fill the log or reconcile everything at each event. In milliseconds. */
const FAILED_MS = 60_000;

interface Failure {
  readonly err: Error;
  readonly object: string;
}

/** Reports the latest failure, at most once in this time. */
function rarely(report: (latest: Failure) => void, signal: AbortSignal) {
  let latest: Failure | undefined;
  const run = atMostEvery(FAILED_MS, () => latest && report(latest), systemClock, signal);
  return (error: unknown, object: KubeObject): void => {
    latest = { err: toError(error), object: nameOf(object) };
    run();
  };
}

const whenFailed = ({ log }: WatchContext, signal: AbortSignal) =>
  rarely((failure) => log.warn(failure, 'a function "when" failed, so the change causes a pass'), signal);

const refOf = ({ metadata: { namespace, name = '' } = {} }: KubeObject): ObjectRef => ({ namespace, name });

const versionOf = ({ object }: Owned): string => object.metadata?.resourceVersion ?? '';

const markOf = ({ metadata }: KubeObject): readonly string[] => {
  const mark = metadata?.labels?.[OWNER_LABEL];
  return mark === undefined ? [] : [mark];
};

const marksOf = (change: Change<KubeObject>): ReadonlySet<string> =>
  new Set([change.object, ...(change.kind === 'changed' ? [change.previous] : [])].flatMap(markOf));

/** A status that the controller wrote is no news. */
function needsPass(
  change: Change<KubeObject>,
  when: CompiledController['when'],
  onError: ReturnType<typeof rarely>,
) {
  if (change.kind !== 'changed') return true;
  const { object, previous } = change;
  if (isDeepStrictEqual(contentOf(object), contentOf(previous))) return false;
  if (object.metadata?.deletionTimestamp !== previous.metadata?.deletionTimestamp) return true;
  return isWanted(when, change, onError);
}

/** An author's predicate that throws loses nothing. */
function isWanted(
  when: CompiledController['when'],
  { object, previous }: Extract<Change<KubeObject>, { kind: 'changed' }>,
  onError: ReturnType<typeof rarely>,
): boolean {
  try {
    return when?.(object, previous) !== false;
  } catch (error) {
    onError(error, object);
    return true;
  }
}

export type OwnWrites = ReturnType<typeof createOwnWrites>;

interface Write {
  readonly version: string | undefined;
  readonly applied?: Owned;
  readonly isAll?: boolean;
}

const markOfWrite = ({ applied }: Write): string => applied?.object.metadata?.labels?.[OWNER_LABEL] ?? '';

/** Writes of a controller that its stores have possibly not seen yet. Keys contain the kind. */
export function createOwnWrites() {
  const pending = new Map<string, Write>();
  const byMark = new Map<string, Set<string>>();

  const forget = (key: string): void => {
    const write = pending.get(key);
    if (write === undefined) return;
    pending.delete(key);
    const keys = byMark.get(markOfWrite(write));
    keys?.delete(key);
    if (keys?.size === 0) byMark.delete(markOfWrite(write));
  };
  const set = (key: string, write: Write): void => {
    forget(key);
    pending.set(key, write);
    if (write.applied === undefined) return;
    const keys = byMark.get(markOfWrite(write)) ?? new Set();
    byMark.set(markOfWrite(write), keys.add(key));
  };
  const isSeen = (key: string, stored: KubeObject | undefined): boolean => {
    const write = pending.get(key);
    if (write === undefined) return true;
    const { resourceVersion = '', deletionTimestamp } = stored?.metadata ?? {};
    const seen =
      write.version === undefined
        ? stored === undefined || deletionTimestamp !== undefined
        : stored !== undefined && !isOlder(resourceVersion, write.version);
    if (seen) forget(key);
    return seen;
  };

  return {
    /** A status or finalizers. @param isAll false: the API server had a version that the pass has not seen */
    wrote: (key: string, { metadata }: KubeObject, isAll = true): void => {
      set(key, { version: metadata?.resourceVersion, isAll });
    },
    applied: (key: string, { kind, object: { apiVersion, kind: name, metadata } }: Owned): void => {
      const object = { apiVersion, kind: name, metadata } as KubeObject;
      set(key, { version: metadata?.resourceVersion, applied: { kind, object } });
    },
    removed: (key: string): void => {
      set(key, { version: undefined });
    },
    isSeen,
    areSeen: (prefix: string, stored: (key: string) => KubeObject | undefined): boolean =>
      [...pending.keys()]
        .filter((key) => key.startsWith(prefix))
        .every((key) => isSeen(key, stored(key.slice(prefix.length)))),
    /** Which write of this controller caused this state. Such a change doesn't need another pass. */
    causeOf: (key: string, { kind, object }: Change<KubeObject>): 'apply' | 'patch' | undefined => {
      const write = kind === 'deleted' ? undefined : pending.get(key);
      if (write?.version === undefined || write.version !== object.metadata?.resourceVersion)
        return undefined;
      if (write.isAll === false) return undefined;
      return write.applied === undefined ? 'patch' : 'apply';
    },
    /** Call it when a store has the change. Otherwise writes of objects that no pass reads again fill the memory. */
    saw: (key: string, { kind, object }: Change<KubeObject>): void => {
      if (!isSeen(key, object) && kind === 'deleted') isSeen(key, undefined);
    },
    unseen: (mark: string): readonly (readonly [key: string, Owned])[] =>
      [...(byMark.get(mark) ?? [])].flatMap((key) => {
        const applied = pending.get(key)?.applied;
        return applied === undefined ? [] : [[key, applied] as const];
      }),
    forget,
    size: (): number => pending.size,
  };
}

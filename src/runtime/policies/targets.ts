/** Watches the kinds that policies refer to. Keeps metadata only, unless expressions read the objects. */
import { groupResourceName, type GroupResource, type KubeObject } from '../../json/kube-object.ts';
import { pick } from '../../json/objects.ts';
import { createListeners, type Listeners } from '../listeners.ts';
import type { Resource } from '../../kube/object.ts';
import type { Store } from '../../kube/store.ts';
import { watch, type WatchContext, type Watched } from '../watch.ts';

export interface Targets {
  /**
   * Starts to watch the kind, and waits for the first list until a timeout. After the timeout, checks read live.
   * @param whole whether expressions read the objects; otherwise metadata is enough. Whole objects stay whole.
   */
  readonly ensure: (resource: Resource, whole: boolean, signal: AbortSignal) => Promise<void>;
  /** Stops the watches of all kinds that are not in `needed`. */
  readonly keepOnly: (needed: readonly GroupResource[]) => void;
  /** Undefined while the kind is not watched. */
  readonly store: (target: GroupResource) => Pick<Store<KubeObject>, 'get'> | undefined;
  /** The kinds whose first list is pending. After a timeout a kind is left out, so that it cannot block readiness. */
  readonly unsynced: () => readonly string[];
  /** Called when a target is created, changed or deleted. */
  readonly onChange: Listeners<[target: GroupResource, key: string]>['add'];
}

/** Timeout of a first list, in milliseconds. A list of 100,000 objects takes some seconds. */
const LISTING_MS = 10_000;

interface Target {
  readonly whole: boolean;
  readonly startedAt: number;
  readonly watched: Watched<KubeObject>;
  readonly stop: () => void;
}

export function createTargets(context: WatchContext, signal: AbortSignal): Targets {
  const targets = new Map<string, Target>();
  const listeners = createListeners<[target: GroupResource, key: string]>();

  const start = (resource: Resource, whole: boolean): Target => {
    const own = new AbortController();
    const watched = watch<KubeObject>(
      context,
      {
        resource,
        metadataOnly: !whole,
        transform: whole ? withoutBookkeeping : onlyIdentity,
        onChange: (key) => {
          listeners.tell(resource, key);
        },
      },
      AbortSignal.any([signal, own.signal]),
    );
    return {
      whole,
      startedAt: performance.now(),
      watched,
      stop: () => {
        own.abort();
      },
    };
  };

  return {
    ensure: async (resource, whole, waiting) => {
      const name = groupResourceName(resource);
      const before = targets.get(name);
      const enoughOfIt = before !== undefined && (before.whole || !whole);
      const target = enoughOfIt ? before : start(resource, whole);
      if (!enoughOfIt) before?.stop();
      targets.set(name, target);
      const enough = AbortSignal.timeout(LISTING_MS);
      await target.watched.whenSynced(AbortSignal.any([waiting, enough])).catch((error: unknown) => {
        if (!enough.aborted) throw error;
        context.log.warn(
          { resource: name },
          'could not list a kind in time; its references cost a live read each',
        );
      });
    },
    keepOnly: (needed) => {
      const names = new Set(needed.map(groupResourceName));
      for (const [name, target] of targets) {
        // A policy may be waiting for this list before it comes into force.
        if (names.has(name) || isBeingListed(target)) continue;
        target.stop();
        targets.delete(name);
      }
    },
    store: (target) => targets.get(groupResourceName(target))?.watched.store,
    unsynced: () => [...targets].filter(([, target]) => isBeingListed(target)).map(([name]) => name),
    onChange: listeners.add,
  };
}

const isBeingListed = ({ watched, startedAt }: Target): boolean =>
  !watched.hasSynced() && performance.now() < startedAt + LISTING_MS;

/** Drops `managedFields`: they are as large as the rest of the object, and no expression reads them. */
function withoutBookkeeping({ metadata, ...object }: KubeObject): KubeObject {
  const kept = Object.entries(metadata ?? {}).filter(([key]) => key !== 'managedFields');
  return { ...object, metadata: Object.fromEntries(kept) };
}

/** There may be many targets, and a reference only needs to know whether its target exists. */
function onlyIdentity(object: KubeObject): KubeObject {
  const { metadata = {} } = object;
  return {
    ...pick(object, 'apiVersion', 'kind'),
    metadata: pick(metadata, 'name', 'namespace', 'uid', 'resourceVersion', 'deletionTimestamp'),
  };
}

/** The kinds that policies refer to: watched as metadata, from when the first policy needs one until none does. */
import { groupResourceName, type GroupResource, type KubernetesObject } from '../../api/meta.ts';
import { createListeners, type Listeners } from '../../controllers/listeners.ts';
import type { KubeObject, Resource } from '../../kube/object.ts';
import type { Store } from '../../kube/store.ts';
import { watch, type WatchContext, type Watched } from './watch.ts';

export interface Targets {
  /** Starts to watch, and waits until the kind has been listed, but not for ever: then checks ask the API server instead. */
  readonly ensure: (resource: Resource, signal: AbortSignal) => Promise<void>;
  /** Stops to watch what is not in `needed`. */
  readonly keepOnly: (needed: readonly GroupResource[]) => void;
  /** Undefined while nobody watches this kind. */
  readonly store: (target: GroupResource) => Pick<Store<KubernetesObject>, 'get'> | undefined;
  /** The kinds that are being listed for the first time. One that cannot be listed is given up on: it must not stop a replica. */
  readonly unsynced: () => readonly string[];
  /** Called with each object that appears or goes. */
  readonly onChange: Listeners<[target: GroupResource, key: string]>['add'];
}

/** A list of 100,000 objects takes some seconds. */
const LISTING_MS = 10_000;

interface Target {
  readonly startedAt: number;
  readonly watched: Watched<KubeObject>;
  readonly stop: () => void;
}

export function createTargets(context: WatchContext, signal: AbortSignal): Targets {
  const targets = new Map<string, Target>();
  const listeners = createListeners<[target: GroupResource, key: string]>();

  const start = (resource: Resource): Target => {
    const own = new AbortController();
    const watched = watch<KubeObject>(
      context,
      {
        resource,
        metadataOnly: true,
        transform: onlyIdentity,
        onChange: (key) => {
          listeners.tell(resource, key);
        },
      },
      AbortSignal.any([signal, own.signal]),
    );
    return {
      startedAt: performance.now(),
      watched,
      stop: () => {
        own.abort();
      },
    };
  };

  return {
    ensure: async (resource, waiting) => {
      const name = groupResourceName(resource);
      const target = targets.get(name) ?? start(resource);
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
        if (names.has(name)) continue;
        target.stop();
        targets.delete(name);
      }
    },
    store: (target) => targets.get(groupResourceName(target))?.watched.store,
    unsynced: () =>
      [...targets]
        .filter(
          ([, { watched, startedAt }]) => !watched.hasSynced() && performance.now() < startedAt + LISTING_MS,
        )
        .map(([name]) => name),
    onChange: listeners.add,
  };
}

/** There may be many targets, and a reference asks only whether one exists. */
function onlyIdentity({ apiVersion, kind, metadata }: KubeObject): KubeObject {
  const { name, namespace, uid, resourceVersion, deletionTimestamp } = metadata ?? {};
  return {
    ...(apiVersion === undefined ? {} : { apiVersion }),
    ...(kind === undefined ? {} : { kind }),
    metadata: {
      ...(name === undefined ? {} : { name }),
      ...(namespace === undefined ? {} : { namespace }),
      ...(uid === undefined ? {} : { uid }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
      ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
    },
  };
}

/** Watches the kinds that policies refer to. Keeps metadata only, unless expressions read the objects. */
import { groupResourceName, type GroupResource, type KubeObject } from '../../json/kube-object.ts';
import { pick } from '../../json/objects.ts';
import { createListeners } from '../listeners.ts';
import type { Resource } from '../../kube/object.ts';
import type { Store } from '../../kube/store.ts';
import { dropManagedFields } from '../../kube/watch/change.ts';
import { watch, type WatchContext, type Watching, keepOnly } from '../watch.ts';

interface Target extends Watching<KubeObject> {
  /** Whether the store holds whole objects or only their metadata. */
  readonly whole: boolean;
}

export type Targets = ReturnType<typeof createTargets>;

export function createTargets(context: WatchContext, signal: AbortSignal) {
  const targets = new Map<string, Target>();
  const listeners = createListeners<[target: GroupResource, key: string]>();

  const start = (resource: Resource, whole: boolean): Target => {
    const transform = whole ? dropManagedFields : onlyIdentity;
    const watching = watch<KubeObject>(context, { resource, metadataOnly: !whole, transform }, signal);
    watching.onChange((key) => listeners.tell(resource, key));
    return { ...watching, whole };
  };

  return {
    /**
     * Starts to watch the kind, and waits for the first list until a timeout. After the timeout, checks read live.
     * @param whole whether expressions read the objects; otherwise metadata is enough. Whole objects stay whole.
     */
    ensure: async (resource: Resource, whole: boolean, waiting: AbortSignal): Promise<void> => {
      const name = groupResourceName(resource);
      const before = targets.get(name);
      const isEnough = before !== undefined && (before.whole || !whole);
      const target = isEnough ? before : start(resource, whole);
      if (!isEnough) before?.stop();
      targets.set(name, target);
      if (await target.listedInTime(waiting)) return;
      context.log.warn(
        { resource: name },
        'could not list a kind in time; its references cost a live read each',
      );
    },
    /** Stops the watches of all kinds that are not in `needed`. */
    keepOnly: (needed: readonly GroupResource[]): void => {
      const names = new Set(needed.map(groupResourceName));
      // A policy may be waiting for this list before it comes into force.
      keepOnly(targets, (name) => names.has(name) || targets.get(name)?.isListing() === true);
    },
    /** Undefined while the kind is not watched. */
    store: (target: GroupResource): Pick<Store<KubeObject>, 'get'> | undefined =>
      targets.get(groupResourceName(target))?.store,
    /** The kinds whose first list is pending. After a timeout a kind is left out, so that it cannot block readiness. */
    unsynced: (): readonly string[] =>
      [...targets].filter(([, { isListing }]) => isListing()).map(([name]) => name),
    /** Called when a target is created, changed or deleted. */
    onChange: listeners.add,
  };
}

/** There may be many targets, and a reference only needs to know whether its target exists. */
function onlyIdentity(object: KubeObject): KubeObject {
  const { metadata = {} } = object;
  return {
    ...pick(object, 'apiVersion', 'kind'),
    metadata: pick(metadata, 'name', 'namespace', 'uid', 'resourceVersion', 'deletionTimestamp'),
  };
}

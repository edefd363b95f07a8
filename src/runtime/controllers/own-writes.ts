/** What a controller has written and its stores may not have seen yet. */
import { isOlder } from '../../kube/watch/watch-event.ts';
import type { KubeObject } from '../../json/kube-object.ts';

export type OwnWrites = ReturnType<typeof createOwnWrites>;

/** Keys have a kind, so that one instance serves all stores of a controller. */
export function createOwnWrites() {
  /** The resourceVersion of the last write; undefined: a deletion. */
  const pending = new Map<string, string | undefined>();
  return {
    wrote: (key: string, { metadata }: KubeObject): void => {
      pending.set(key, metadata?.resourceVersion);
    },
    removed: (key: string): void => {
      pending.set(key, undefined);
    },
    /** Whether the object in the store reflects the last write; undefined: the store has none. */
    isSeen: (key: string, stored: KubeObject | undefined): boolean => {
      if (!pending.has(key)) return true;
      const version = pending.get(key);
      const { resourceVersion = '', deletionTimestamp } = stored?.metadata ?? {};
      const seen =
        version === undefined
          ? stored === undefined || deletionTimestamp !== undefined
          : stored !== undefined && !isOlder(resourceVersion, version);
      if (seen) pending.delete(key);
      return seen;
    },
    /** Whether this is the state that the controller wrote itself: it needs no other pass. */
    isOwn: (key: string, { metadata }: KubeObject): boolean => {
      const version = pending.get(key);
      return version !== undefined && version === metadata?.resourceVersion;
    },
    /** The store no longer follows this object. */
    forget: (key: string): void => {
      pending.delete(key);
    },
  };
}

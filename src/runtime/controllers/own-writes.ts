/** What a controller has written and its stores may not have seen yet. */
import { OWNER_LABEL } from '../../controllers/owned-objects.ts';
import type { Owned } from '../../controllers/world.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { Change } from '../../kube/watch/change.ts';
import { isOlder } from '../../kube/watch/watch-event.ts';

export type OwnWrites = ReturnType<typeof createOwnWrites>;

interface Write {
  /** The resourceVersion; undefined: a deletion. */
  readonly version: string | undefined;
  /** What was applied; undefined: a status or finalizers. */
  readonly applied?: Owned;
  /** Whether this is all that has changed: otherwise the change needs a pass. */
  readonly isAll?: boolean;
}

const markOf = ({ applied }: Write): string => applied?.object.metadata?.labels?.[OWNER_LABEL] ?? '';

/** Keys have a kind, so that one instance serves all stores of a controller. */
export function createOwnWrites() {
  /** The last write of each object. */
  const pending = new Map<string, Write>();
  /** The keys of what was applied, by the mark of the owner. */
  const byMark = new Map<string, Set<string>>();

  const forget = (key: string): void => {
    const write = pending.get(key);
    if (write === undefined) return;
    pending.delete(key);
    const keys = byMark.get(markOf(write));
    keys?.delete(key);
    if (keys?.size === 0) byMark.delete(markOf(write));
  };
  const set = (key: string, write: Write): void => {
    forget(key);
    pending.set(key, write);
    if (write.applied === undefined) return;
    const keys = byMark.get(markOf(write)) ?? new Set();
    byMark.set(markOf(write), keys.add(key));
  };
  /** Whether the object in the store reflects the last write; undefined: the store has none. */
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
    /** Whether the store reflects all writes of objects whose keys have this prefix. */
    areSeen: (prefix: string, stored: (key: string) => KubeObject | undefined): boolean =>
      [...pending.keys()]
        .filter((key) => key.startsWith(prefix))
        .every((key) => isSeen(key, stored(key.slice(prefix.length)))),
    /** What this controller did to bring about this state: it needs no other pass for it. */
    causeOf: (key: string, { kind, object }: Change<KubeObject>): 'apply' | 'patch' | undefined => {
      const write = kind === 'deleted' ? undefined : pending.get(key);
      if (write?.version === undefined || write.version !== object.metadata?.resourceVersion)
        return undefined;
      if (write.isAll === false) return undefined;
      return write.applied === undefined ? 'patch' : 'apply';
    },
    /** The store has this change: without it, the writes of all objects that no pass reads again would stay in memory. */
    saw: (key: string, { kind, object }: Change<KubeObject>): void => {
      if (!isSeen(key, object) && kind === 'deleted') isSeen(key, undefined);
    },
    /** What was applied for the owner with this mark, and a store may not have. */
    unseen: (mark: string): readonly (readonly [key: string, Owned])[] =>
      [...(byMark.get(mark) ?? [])].flatMap((key) => {
        const applied = pending.get(key)?.applied;
        return applied === undefined ? [] : [[key, applied] as const];
      }),
    /** The store no longer follows this object. */
    forget,
    size: (): number => pending.size,
  };
}

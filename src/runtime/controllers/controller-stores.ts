/** The stores of one controller: the objects that it reconciles, and those that it has applied. */
import { isDeepStrictEqual } from 'node:util';

import type { CompiledController } from '../../controllers/compile-controller.ts';
import { contentOf, CONTROLLER_LABEL, OWNER_LABEL, ownerMark } from '../../controllers/owned-objects.ts';
import { appliedKey, type Settled } from '../../controllers/pass-state.ts';
import type { Owned, ServedKind } from '../../controllers/world.ts';
import { groupResourceName, keyOf, type GroupResource, type KubeObject } from '../../json/kube-object.ts';
import { dropManagedFields, type Change } from '../../kube/watch/change.ts';
import { watch, type WatchContext, type Watching } from '../watch.ts';
import type { OwnWrites } from './own-writes.ts';

const BY_MARK = 'mark';

export const isSame = (a: GroupResource, b: GroupResource): boolean =>
  a.group === b.group && a.resource === b.resource;

export type ControllerStores = ReturnType<typeof watchKinds>;

export const writeKey = (kind: GroupResource, key: string): string => `${groupResourceName(kind)} ${key}`;

/** @param enqueue called with the key of each object that needs a pass */
export function watchKinds(
  context: WatchContext,
  controller: CompiledController,
  [watched, ...owns]: readonly [ServedKind, ...(readonly ServedKind[])],
  { writes, settled }: { readonly writes: OwnWrites; readonly settled: Settled },
  enqueue: (key: string) => void,
  signal: AbortSignal,
) {
  const primary: Watching<KubeObject> = watch<KubeObject>(
    context,
    {
      resource: watched,
      transform: dropManagedFields,
      indexes: { [BY_MARK]: (object) => [ownerMark(controller, keyOf(object))] },
      onChange: (key, change) => {
        // An object of the same kind that the controller applied needs its own pass.
        if (needsPass(change) && causeOf(watched, change) !== 'patch') enqueue(key);
        writes.saw(writeKey(watched, key), change);
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
  const causeOf = (kind: ServedKind, change: Change<KubeObject>) =>
    writes.causeOf(writeKey(kind, keyOf(change.object)), change);
  return {
    primary,
    owned,
    /** Includes what was applied a moment ago: no other pass would prune it. */
    withMark: (mark: string): readonly Owned[] => {
      const stored = owned.flatMap(({ kind, store }) =>
        store.byIndex(BY_MARK, mark).map((object) => ({ kind, object })),
      );
      const known = new Set(stored.map(({ kind, object }) => writeKey(kind, keyOf(object))));
      return [...stored, ...writes.unseen(mark).flatMap(([key, one]) => (known.has(key) ? [] : one))];
    },
    whenSynced: async (waiting: AbortSignal) => {
      await Promise.all([primary, ...owned].map((one) => one.whenSynced(waiting)));
    },
  };
}

const markOf = ({ metadata }: KubeObject): readonly string[] => {
  const mark = metadata?.labels?.[OWNER_LABEL];
  return mark === undefined ? [] : [mark];
};

const marksOf = (change: Change<KubeObject>): ReadonlySet<string> =>
  new Set([change.object, ...(change.kind === 'changed' ? [change.previous] : [])].flatMap(markOf));

/** A status that the controller wrote is no news. */
const needsPass = (change: Change<KubeObject>): boolean =>
  change.kind !== 'changed' || !isDeepStrictEqual(contentOf(change.object), contentOf(change.previous));

/** The stores of one controller: the objects that it reconciles, and those that it has applied. */
import { isDeepStrictEqual } from 'node:util';

import type { CompiledController } from '../../controllers/compile-controller.ts';
import { contentOf, CONTROLLER_LABEL, OWNER_LABEL, ownerMark } from '../../controllers/owned-objects.ts';
import type { ServedKind } from '../../controllers/world.ts';
import { groupResourceName, keyOf, type GroupResource, type KubeObject } from '../../json/kube-object.ts';
import { dropManagedFields, type Change } from '../../kube/watch/change.ts';
import { watch, type WatchContext, type Watching } from '../watch.ts';
import type { OwnWrites } from './own-writes.ts';

const BY_MARK = 'mark';

export type ControllerStores = ReturnType<typeof watchKinds>;

export const writeKey = (kind: GroupResource, key: string): string => `${groupResourceName(kind)} ${key}`;

/** @param enqueue called with the key of each object that needs a pass */
export function watchKinds(
  context: WatchContext,
  controller: CompiledController,
  [watched, ...owns]: readonly [ServedKind, ...(readonly ServedKind[])],
  writes: OwnWrites,
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
        if (needsPass(change) && !isOwn(watched, change)) enqueue(key);
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
        onChange: (_key, change) => {
          if (isOwn(kind, change)) return;
          for (const mark of marksOf(change))
            for (const owner of primary.store.byIndex(BY_MARK, mark)) enqueue(keyOf(owner));
        },
      },
      signal,
    );
    return { kind, ...store };
  });
  const isOwn = (kind: ServedKind, { kind: how, object }: Change<KubeObject>): boolean =>
    how !== 'deleted' && writes.isOwn(writeKey(kind, keyOf(object)), object);
  return {
    primary,
    owned,
    withMark: (mark: string) =>
      owned.flatMap(({ kind, store }) => store.byIndex(BY_MARK, mark).map((object) => ({ kind, object }))),
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

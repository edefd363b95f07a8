/** A cluster in memory, for the tests of authors: one object that is reconciled, and what else exists. */
import type { ReadKind } from '../admission/handlers/compile-handler.ts';
import { copyJson } from '../admission/handlers/draft.ts';
import { groupResourceName, keyOf, objectKey, toTimestamp, type KubeObject } from '../json/kube-object.ts';
import { matchesSelector } from '../json/label-selector.ts';
import { mergeInto } from '../json/merge-patch.ts';
import { deepFreeze } from '../json/json.ts';
import type { CompiledController } from './compile-controller.ts';
import { OWNER_LABEL } from './owned-objects.ts';
import type { MetricWrite } from '../api/own-metric.ts';
import { isIndexed } from './watch-map.ts';
import type { ControllerTrial, ControllerWrite } from './trial.ts';
import { OutdatedError, type ControllerWorld, type ServedKind } from './world.ts';

/** A test shows the author's error. */
const rethrow = (error: unknown): never => {
  throw error;
};

/** Lists are replaced, as no schema is known. */
export function createMemory(
  controller: CompiledController,
  { object, cluster = {}, now = new Date() }: ControllerTrial,
) {
  const stores = new Map<string, Map<string, KubeObject>>();
  const storeOf = (kind: string) => {
    const store = stores.get(kind) ?? new Map<string, KubeObject>();
    stores.set(kind, store);
    return store;
  };
  let version = 1;
  const put = (kind: string, given: KubeObject): KubeObject => {
    const { metadata = {} } = given;
    const stored = deepFreeze({
      ...given,
      metadata: {
        uid: `uid-${kind}-${keyOf(given)}`,
        generation: 1,
        ...metadata,
        resourceVersion: String(version++),
      },
    });
    storeOf(kind).set(keyOf(given), stored);
    return stored;
  };
  const watched = groupResourceName(controller.watched);
  const own: KubeObject = copyJson(object);
  if (own.kind === undefined || own.apiVersion === undefined || own.metadata?.name === undefined)
    throw new Error('give the controller an object with apiVersion, kind and metadata.name');
  const key = keyOf(put(watched, own));
  for (const [kind, objects] of Object.entries(cluster)) for (const one of objects) put(kind, copyJson(one));

  const writes: ControllerWrite[] = [];
  const events: { type: string; reason: string; message: string }[] = [];
  const metrics: MetricWrite[] = [];
  const wrote = (
    verb: ControllerWrite['verb'],
    kind: ServedKind,
    target: KubeObject,
    body: unknown,
  ): void => {
    writes.push({ verb, target: `${groupResourceName(kind)} ${keyOf(target)}`, body });
  };
  const expectFresh = ({ metadata }: KubeObject): void => {
    const stored = storeOf(watched).get(key)?.metadata?.resourceVersion;
    if (stored !== metadata?.resourceVersion) throw new OutdatedError(`${key} has changed`);
  };
  const kinds = [controller.watched, ...controller.owns].map((kind, index) => ({
    ...kind,
    kind: index === 0 ? (own.kind ?? '') : '',
    namespaced: false, // nothing knows it: objects have a namespace or not
  }));
  const all = (kind: ReadKind) => [...storeOf(groupResourceName(kind)).values()];
  const owned = (mark: string) =>
    kinds
      .slice(1)
      .flatMap((kind) => all({ ...kind, metadataOnly: false }).map((found) => ({ kind, object: found })))
      .filter(({ object: found }) => found.metadata?.labels?.[OWNER_LABEL] === mark);

  const world: ControllerWorld = {
    now: () => now,
    served: () => Promise.resolve(kinds),
    unreadable: [],
    get: (kind, place) => {
      const store = storeOf(groupResourceName(kind));
      return Promise.resolve(store.get(objectKey(place)) ?? store.get(place.name));
    },
    list: (kind, { namespace, selector, index }) =>
      Promise.resolve(
        all(kind).filter(
          (found) =>
            (namespace === undefined || [namespace, undefined].includes(found.metadata?.namespace)) &&
            matchesSelector(selector, found.metadata?.labels ?? {}) &&
            isIndexed(controller.indexes, index, found, rethrow),
        ),
      ),
    owned: (mark) => Promise.resolve(owned(mark)),
    ownedLive: (mark) => Promise.resolve(owned(mark)),
    apply: (kind, applied, how) => {
      if (how !== 'prove') wrote('apply', kind, applied, applied);
      const name = groupResourceName(kind);
      return Promise.resolve(
        put(name, mergeInto(copyJson(storeOf(name).get(keyOf(applied)) ?? {}), copyJson(applied))),
      );
    },
    expectCurrent: (_kind, target) => {
      expectFresh(target);
      return Promise.resolve();
    },
    withManagers: (kind, { metadata }) =>
      Promise.resolve(storeOf(groupResourceName(kind)).get(keyOf({ metadata } as KubeObject))),
    remove: (kind, removed) => {
      wrote('delete', kind, removed, undefined);
      const name = groupResourceName(kind);
      const { finalizers = [], ...metadata } = removed.metadata ?? {};
      if (finalizers.length === 0) storeOf(name).delete(keyOf(removed));
      else
        put(name, { ...removed, metadata: { ...metadata, finalizers, deletionTimestamp: toTimestamp(now) } });
      return Promise.resolve();
    },
    setFinalizers: (kind, target, finalizers) => {
      if (storeOf(watched).get(key) === undefined) return Promise.resolve(undefined);
      expectFresh(target);
      wrote('finalizers', kind, target, finalizers);
      const metadata = { ...target.metadata, finalizers };
      if (finalizers.length > 0 || metadata.deletionTimestamp === undefined)
        return Promise.resolve(put(watched, { ...target, metadata }));
      storeOf(watched).delete(keyOf(target));
      return Promise.resolve(undefined);
    },
    patchStatus: (kind, target, status) => {
      expectFresh(target);
      wrote('status', kind, target, status);
      return Promise.resolve(put(watched, mergeInto(copyJson(target), copyJson({ status }))));
    },
    metric: (write) => void metrics.push(write),
    event: (_object, type, reason, message) => void events.push({ type, reason, message }),
    isPassing: (error) => error instanceof OutdatedError,
    log: { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined },
  };
  return {
    world,
    writes,
    events,
    metrics,
    /** A user replaces the reconciled object. */
    replace: (given: KubeObject) => put(watched, given),
    object: () => storeOf(watched).get(key),
    cluster: () =>
      Object.fromEntries(
        [...stores].filter(([kind]) => kind !== watched).map(([kind, store]) => [kind, [...store.values()]]),
      ),
  };
}

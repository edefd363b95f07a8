/** The cluster as admission checks see it: stores, which may lag, and live reads. */
import { isDeepStrictEqual } from 'node:util';

import { isOwnSecret } from '../../admission/policy/author-reads.ts';
import {
  OutOfReachError,
  type LiveOwner,
  type ObjectReads,
  type Owners,
} from '../../admission/policy/world.ts';
import {
  groupResourceName,
  objectKey,
  type GroupResource,
  type KubeObject,
  type ObjectRef,
  splitApiVersion,
  type ObjectMeta,
} from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import { type Resource, apiVersionOf } from '../../kube/object.ts';
import { isCovered, type Namespaces } from '../namespaces.ts';
import { createSharedRead, type SharedRead } from '../shared-read.ts';
import { pick } from '../../json/json.ts';
import { createListeners } from '../listeners.ts';
import type { Store } from '../../kube/store.ts';
import { dropManagedFields } from '../../kube/watch.ts';
import { watch, type WatchContext, type Watching, keepOnly } from '../watch.ts';

/**
 * @param exact reads integers without loss
 * @param others the parts of the world that are not read from the stores of targets or from the API server
 */
export function createWorld<Others extends object>(
  client: Pick<KubeClient, 'get' | 'getMetadata'>,
  exact: Pick<KubeClient, 'get'>,
  discovery: Pick<Discovery, 'resolve' | 'forget'>,
  targets: Pick<Targets, 'store'>,
  others: Others,
): ObjectReads & Others {
  const resolveUncached = createUncachedResolve(discovery);
  const live = async (
    ref: ObjectRef,
    signal: AbortSignal,
    request: (kind: Resource) => Promise<KubeObject | undefined>,
  ): Promise<KubeObject | undefined> => {
    // No object of the other scope exists.
    const get = async (kind: Resource) =>
      kind.namespaced === (ref.namespace !== undefined) ? await request(kind) : undefined;
    const kind = await served(discovery, ref, signal);
    const found = await get(kind);
    if (found !== undefined) return found;
    // 404 may also mean that the API server has stopped serving this version: the discovery cache may be stale.
    const current = await served({ resolve: resolveUncached }, ref, signal);
    return isDeepStrictEqual(current, kind) ? undefined : await get(current);
  };
  return {
    ...others,
    find: (ref) => targets.store(ref)?.get(objectKey(ref)),
    confirm: (ref, signal) => live(ref, signal, (kind) => client.getMetadata(kind, ref, { signal })),
    read: (ref, signal, versions = ['*']) =>
      live(ref, signal, async (kind) => {
        const found = await exact.get(kind, ref, { signal });
        const version = versionAmong(versions, kind.version);
        if (found === undefined || version === kind.version) return found;
        const wanted = await exact.get({ ...kind, version }, ref, { signal });
        // 404 may also mean that this version is not served. If the object still exists, that is the cause.
        if (wanted === undefined && (await client.getMetadata(kind, ref, { signal })) !== undefined) {
          throw new Error(`the API server does not serve ${groupResourceName(ref)} in version ${version}`);
        }
        return wanted;
      }),
  };
}

/** Hides Gatehouse's own Secrets, which include the CA key: a reference to one finds nothing. */
export function withoutOwnSecrets<World extends ObjectReads>(world: World, ownNamespace: string): World {
  const unless =
    <Rest extends readonly unknown[], Result>(
      read: (ref: ObjectRef, ...rest: Rest) => Result,
      nothing: Result,
    ) =>
    (ref: ObjectRef, ...rest: Rest): Result =>
      isOwnSecret(ref, ownNamespace) ? nothing : read(ref, ...rest);
  const nothing = Promise.resolve(undefined);
  return {
    ...world,
    find: unless(world.find, undefined),
    confirm: unless(world.confirm, nothing),
    read: unless(world.read, nothing),
  };
}

/** Refuses to read objects outside of `--namespaces`. */
export function withinReach<World extends ObjectReads>(world: World, namespaces: Namespaces): World {
  const within =
    <Rest extends readonly unknown[], Result>(read: (ref: ObjectRef, ...rest: Rest) => Promise<Result>) =>
    (ref: ObjectRef, ...rest: Rest): Promise<Result> =>
      isCovered(namespaces, ref.namespace) ? read(ref, ...rest) : Promise.reject(outOfReach(ref));
  return { ...world, confirm: within(world.confirm), read: within(world.read) };
}

const outOfReach = ({ namespace = '' }: ObjectRef): OutOfReachError =>
  new OutOfReachError(`Gatehouse does not read namespace ${namespace}: add it to --namespaces`);

function createUncachedResolve(discovery: Pick<Discovery, 'resolve' | 'forget'>): Discovery['resolve'] {
  const reads = new Map<string, SharedRead<Resource | undefined>>();
  return (kind, signal = new AbortController().signal) => {
    const name = groupResourceName(kind);
    let read = reads.get(name);
    if (read === undefined) {
      read = createSharedRead(() => {
        discovery.forget(kind);
        return discovery.resolve(kind);
      });
      reads.set(name, read);
    }
    return read(signal);
  };
}

/** The version in which to read an object: the preferred version if `versions` has it, otherwise the first. */
export function versionAmong(versions: readonly string[], preferred: string): string {
  return versions.includes('*') || versions.includes(preferred) ? preferred : (versions[0] ?? preferred);
}

/** @throws Error when the API server does not serve the kind: whether an object of that kind exists is then unknown */
export async function served(
  discovery: Pick<Discovery, 'resolve'>,
  { group, resource }: GroupResource | ObjectRef,
  signal: AbortSignal,
): Promise<Resource> {
  const found = await discovery.resolve({ group, resource }, signal);
  if (found === undefined)
    throw new Error(`the API server does not serve ${groupResourceName({ group, resource })}`);
  return found;
}

/** Timeout of a read, in milliseconds: a user waits for the answer. */
const READ_MS = 2_000;
/** A restore creates thousands of children before their owners, and each read of a missing owner is a 404. */
const RELEARN_MS = 5_000;

export function createOwners(
  client: Pick<KubeClient, 'getMetadata'>,
  discovery: Pick<Discovery, 'resolveKind' | 'forget'>,
  isOurs: Owners['isOurs'],
  now: () => number,
): Owners {
  const relearnt = new Map<string, number>();
  const mayRelearn = (group: string): boolean => {
    if (now() - (relearnt.get(group) ?? -RELEARN_MS) < RELEARN_MS) return false;
    relearnt.set(group, now());
    return true;
  };

  return {
    read: async ({ apiVersion, kind, name }, namespace, signal) => {
      const { group, version } = splitApiVersion(apiVersion);
      const wanted = { group, version, kind };
      const get = async (resource: Resource): Promise<LiveOwner | undefined> => {
        if (resource.namespaced && namespace === undefined) return undefined;
        const place = { namespace: resource.namespaced ? namespace : undefined, name };
        const found = await client.getMetadata(resource, place, { signal, timeoutMs: READ_MS });
        return found === undefined ? undefined : toLiveOwner(resource, found.metadata);
      };

      const resource = await discovery.resolveKind(wanted, signal);
      const found = resource === undefined ? undefined : await get(resource);
      if (found !== undefined || resource === undefined || !mayRelearn(group)) return found;
      discovery.forget(resource);
      const current = await discovery.resolveKind(wanted, signal);
      return current === undefined || isDeepStrictEqual(current, resource) ? undefined : await get(current);
    },
    isOurs,
  };
}

function toLiveOwner(
  resource: Resource,
  { uid = '', creationTimestamp, deletionTimestamp, labels }: ObjectMeta,
): LiveOwner {
  return { uid, apiVersion: apiVersionOf(resource), creationTimestamp, deletionTimestamp, labels };
}

interface Target extends Watching<KubeObject> {
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
    /** Waits for the first list until a timeout; after it, checks read live. Whole objects stay whole. */
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
    keepOnly: (needed: readonly GroupResource[]): void => {
      const names = new Set(needed.map(groupResourceName));
      // A policy may be waiting for this list before it comes into force.
      keepOnly(targets, (name) => names.has(name) || targets.get(name)?.isListing() === true);
    },
    store: (target: GroupResource): Pick<Store<KubeObject>, 'get'> | undefined =>
      targets.get(groupResourceName(target))?.store,
    unsynced: (): readonly string[] =>
      [...targets].filter(([, { isListing }]) => isListing()).map(([name]) => name),
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

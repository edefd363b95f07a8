/** Links restored objects to their former owners and targets, once for each governed object. */
import type { LiveOwner, Owners } from '../../admission/policy/world.ts';
import type { GroupResource, KubeObject } from '../../json/kube-object.ts';
import { uniqueBy } from '../../json/json.ts';
import type { RelinkItem } from '../../api/restore-findings.ts';
import { OWNERS_MANAGER, unchanged } from '../../restore/owner-links.ts';
import { restoringWindows, sweepMode, type SweepMode, createAttribution } from '../../restore/attribution.ts';
import { type StoredObjects, storedObjects, eachPage, storedRef } from '../policies/stored-objects.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { namesUids, targetUids, type TargetUid } from '../../admission/policy/references/target-uids.ts';
import { type NamedUid, namedUids } from '../../admission/policy/references/named-uids.ts';
import { isInScope, type NamespaceLabels } from '../../admission/policy/match/object-scope.ts';
import { mapConcurrent } from '../../json/map-concurrent.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { relinkMode } from '../../restore/window.ts';
import type { ControllersConfig } from '../../config/config.ts';
import type { Context } from '../context.ts';
import type { RestoreKinds } from './restore-kinds.ts';
import type { PolicyRegistry } from '../policies/policy-registry.ts';
import {
  type RelinkOptions,
  type Relink,
  createRelinker,
  ATTEMPTS,
  isYounger,
  instead,
  heldBack,
  toItem,
  createPatch,
  type PatchGuarded,
  PATCH,
  withAdvice,
} from './relink-owners.ts';
import { writtenOf } from './sweep-checks.ts';
import { messageOf } from '../../json/abort.ts';
import { pointerOf } from '../../json/json-patch.ts';

export type RelinkedStored = Awaited<ReturnType<typeof relinkStored>>;

const AT_ONCE = 16;
/** For one object: a user can write one with thousands of uids. */
const READS_AT_ONCE = 4;

interface Relinkers {
  readonly owners: Relink;
  readonly uids: RelinkUids;
}

export type RelinkTask = Pick<RelinkOptions, 'isRestored'> & {
  readonly modeOf: (resource: GroupResource, object: KubeObject) => SweepMode;
};

export interface Governed {
  readonly resource: GroupResource;
  readonly object: KubeObject;
  readonly governing: readonly CompiledPolicy[];
  readonly namespaces: NamespaceLabels;
}

export const mayLose = (policy: CompiledPolicy): boolean =>
  policy.preservesOwners || policy.restore.uids.length > 0 || namesUids(policy);

/** @throws the reason of `signal` on abort, and when the namespaces cannot be read */
export async function relinkStored(
  stored: Pick<StoredObjects, 'pages' | 'namespaceLabels'>,
  policies: readonly CompiledPolicy[],
  relink: Relinkers,
  { modeOf, isRestored }: RelinkTask,
  signal: AbortSignal,
) {
  const preserving = policies.filter(mayLose);
  const items: RelinkItem[] = [];
  if (preserving.length === 0) return { items, unreadable: [] };
  const namespaces = await stored.namespaceLabels(signal);
  const unreadable = await eachPage(
    stored,
    preserving,
    async (page, resource, governing) => {
      const results = await mapConcurrent(page, AT_ONCE, (object) =>
        relinkObject({ resource, object, governing, namespaces }, relink, { modeOf, isRestored }, signal),
      );
      for (const item of results.flat()) items.push(item);
    },
    signal,
  );
  return { items, unreadable };
}

export async function relinkObject(
  { resource, object, governing, namespaces }: Governed,
  relink: Relinkers,
  { modeOf, isRestored }: RelinkTask,
  signal: AbortSignal,
): Promise<readonly RelinkItem[]> {
  const policiesOf = governing.filter((policy) => isInScope(policy, object, namespaces));
  const { mode, ...others } = modeOf(resource, object);
  if (policiesOf.length === 0 || mode === 'Off') return [];
  const options = { mode, ...others, isRestored };
  // Uids first: a link changes the object.
  const uids = await relink.uids(resource, object, policiesOf, options, signal);
  const preserves = policiesOf.some(({ preservesOwners }) => preservesOwners);
  return preserves ? [...uids, ...(await relink.owners(resource, object, options, signal))] : uids;
}

export type RelinkOwners = ReturnType<typeof createRelinkOwners>;

export interface RelinkSources extends RestoreKinds {
  readonly registry: Pick<PolicyRegistry, 'inForce'>;
  readonly world: { readonly owners: Owners };
}

export function createRelinkers(
  { client, discovery, namespaces }: Context<ControllersConfig>,
  { world }: Pick<RelinkSources, 'world'>,
) {
  const stored = storedObjects(client, discovery, undefined, namespaces);
  const patch = createPatch(client, discovery, OWNERS_MANAGER);
  const owners = createRelinker(world.owners, stored, patch);
  return { stored, relink: { owners, uids: createUidRelinker(stored, world.owners, patch) } };
}

export function createRelinkOwners(
  { stored, relink }: ReturnType<typeof createRelinkers>,
  { config }: Pick<Context<ControllersConfig>, 'config'>,
  { windows, detectors, registry }: RelinkSources,
) {
  return async (window: RestoreWindow, signal: AbortSignal): Promise<RelinkedStored | undefined> => {
    if (relinkMode(window.spec) === 'Off') return undefined;
    const others = windows.store.list().filter(({ metadata }) => metadata.name !== window.metadata.name);
    const known = [[window, ...others], detectors.store.list(), config.restoreSettleMs] as const;
    const restoring = restoringWindows(...known);
    const { writer } = createAttribution(...known);
    const task: RelinkTask = {
      modeOf: (resource, object) => {
        const belongsTo = restoring(object.metadata ?? {}, resource);
        const owner = writer({ resource, written: writtenOf(object) });
        // Each object is in the report of one window, whose sweep links its owners.
        const isLeft = owner !== undefined && owner !== window && belongsTo.includes(owner);
        return isLeft ? { mode: 'Off' } : sweepMode(window, belongsTo);
      },
      isRestored: (made) => restoring(made).length > 0,
    };
    return await relinkStored(stored, registry.inForce(), relink, task, signal);
  };
}

type UidPolicy = Pick<CompiledPolicy, 'references' | 'restore'>;

/** One item for each stale uid; none for an object that no restore has created. */
export type RelinkUids = (
  resource: GroupResource,
  object: KubeObject,
  governing: readonly UidPolicy[],
  options: RelinkOptions,
  signal: AbortSignal,
) => Promise<readonly RelinkItem[]>;

/** With a target, or with the reference alone. Without both, nothing says whose uid it is. */
type UidPlace = NamedUid & Partial<Pick<TargetUid, 'target'>>;

/** @returns all uids that a restore may have changed */
export function uidPlaces(governing: readonly UidPolicy[], object: KubeObject): readonly UidPlace[] {
  const targets = targetUids(governing, object).map(({ reference, ...place }) => {
    const { group, name, namespace } = place.target;
    // Any version: the kind is looked up in its group.
    const apiVersion = group === '' ? 'v1' : `${group}/v1`;
    return { ...place, namespace, ref: { apiVersion, kind: reference.targetKind, name } };
  });
  return uniqueBy([...targets, ...namedUids(governing, object)], ({ field }) => field);
}

interface Verdict {
  readonly place: UidPlace;
  readonly result: RelinkItem['result'] | 'Current';
  readonly message?: string;
  readonly now?: string;
  readonly apiVersion?: string | undefined;
}

export function createUidRelinker(
  stored: Pick<StoredObjects, 'read'>,
  owners: Pick<Owners, 'read'>,
  patch: PatchGuarded,
): RelinkUids {
  return async (resource, listed, governing, options, signal) => {
    const { metadata = {} } = listed;
    if (metadata.deletionTimestamp !== undefined || uidPlaces(governing, listed).length === 0) return [];
    if (!options.isRestored({ creationTimestamp: metadata.creationTimestamp, labels: metadata.labels }))
      return [];
    const self = storedRef(resource, listed);
    const judge = async (object: KubeObject) =>
      await mapConcurrent(uidPlaces(governing, object), READS_AT_ONCE, (place) => {
        const read = async () =>
          place.target === undefined
            ? place.ref && (await owners.read(place.ref, place.namespace, signal))
            : toLive(await stored.read(place.target, signal));
        return judgeUid({ place, object, read }, options, signal);
      });

    const linked = new Map<string, RelinkItem>();
    let trouble = '';
    let object: KubeObject | undefined = listed;
    for (let attempt = 0; attempt <= ATTEMPTS; attempt += 1) {
      if (object === undefined || object.metadata?.uid !== metadata.uid) return [];
      const verdicts: readonly Verdict[] = (await judge(object)).filter(({ result }) => result !== 'Current');
      const stale = verdicts.filter(({ result }) => result === 'Linked');
      const conclude = (adjust = (verdict: Verdict): Verdict => verdict) => [
        ...linked.values(),
        ...verdicts.map((verdict) => toUidItem(listed, adjust(verdict))),
      ];
      if (options.mode === 'Report') return conclude(heldBack(options, 'change'));
      if (stale.length === 0) return conclude();
      if (attempt === ATTEMPTS) return conclude(instead('Failed', trouble));
      const outcome = await patch(self, uidPatch(object, stale), signal);
      switch (outcome.kind) {
        case 'forbidden':
          return conclude(instead('Failed', withAdvice(outcome.message, resource, PATCH)));
        case 'changed':
          trouble = outcome.message;
          object = await stored.read(self, signal);
          break;
        case 'patched':
          // The next attempt reads the targets again: one may have been replaced in the meantime.
          for (const verdict of stale) linked.set(verdict.place.field, toUidItem(listed, verdict));
          trouble = 'its target was replaced again and again';
          object = outcome.object;
      }
    }
    return [];
  };
}

interface Judged {
  readonly place: UidPlace;
  readonly object: KubeObject;
  readonly read: () => Promise<LiveOwner | undefined>;
}

async function judgeUid(
  { place, object, read }: Judged,
  { isRestored }: RelinkOptions,
  signal: AbortSignal,
): Promise<Verdict> {
  if (place.ref === undefined) return { place, result: 'OwnerAmbiguous', message: UNKNOWN_UID };
  const target = `${place.ref.kind} "${place.ref.name}"`;
  try {
    const live = await read();
    if (live === undefined) {
      const message = `${target} not found; restore it as well, and the next sweep writes its uid`;
      return { place, result: 'OwnerMissing', message };
    }
    const { uid, creationTimestamp, deletionTimestamp, labels } = live;
    if (uid === '' || uid === place.uid) return { place, result: 'Current' };
    if (deletionTimestamp !== undefined)
      return { place, result: 'OwnerTerminating', message: `${target} is being deleted` };
    if (
      isYounger({ creationTimestamp }, object.metadata ?? {}) &&
      !isRestored({ creationTimestamp, labels, namespace: place.namespace })
    ) {
      const message = `${target} is younger than the object and no restore has made it; write its uid if it is the target`;
      return { place, result: 'OwnerAmbiguous', message };
    }
    return { place, result: 'Linked', now: uid, apiVersion: live.apiVersion || undefined };
  } catch (error) {
    signal.throwIfAborted();
    return { place, result: 'Failed', message: `could not read ${target}: ${messageOf(error)}` };
  }
}

const UNKNOWN_UID =
  'neither the record of the owners nor apiVersion, kind and name next to the field say whose uid it is; write the current uid';

function toLive(object: KubeObject | undefined): LiveOwner | undefined {
  if (object === undefined) return undefined;
  const { uid = '', creationTimestamp, deletionTimestamp, labels } = object.metadata ?? {};
  return { uid, apiVersion: object.apiVersion ?? '', creationTimestamp, deletionTimestamp, labels };
}

const uidPatch = (object: KubeObject, stale: readonly Verdict[]) => [
  ...unchanged(object),
  ...stale.map(({ place: { keys }, now }) => ({ op: 'replace', path: pointerOf(keys), value: now }) as const),
];

function toUidItem(object: KubeObject, { place, result, message, apiVersion }: Verdict): RelinkItem {
  const { ref = { apiVersion: '', kind: 'uid', name: place.uid }, target, field } = place;
  const owner = { ...ref, apiVersion: apiVersion ?? target?.group ?? ref.apiVersion };
  return { ...toItem(object, owner, result === 'Current' ? 'Linked' : result, message), field };
}

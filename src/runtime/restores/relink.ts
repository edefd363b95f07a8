/** Links restored objects to their former owners and targets, once for each governed object. */
import type { Owners } from '../../admission/policy/world.ts';
import type { GroupResource, KubeObject } from '../../json/kube-object.ts';
import type { RelinkItem } from '../../api/restore-findings.ts';
import { OWNERS_MANAGER, unchanged } from '../../restore/owner-links.ts';
import { restoringWindows, sweepMode, type SweepMode, createAttribution } from '../../restore/attribution.ts';
import { type StoredObjects, storedObjects, eachPage, storedRef } from '../policies/stored-objects.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { namesUids, targetUids, type TargetUid } from '../../admission/policy/references/target-uids.ts';
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

export interface Relinkers {
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

export const mayLose = (policy: CompiledPolicy): boolean => policy.preservesOwners || namesUids(policy);

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
      items.push(...results.flat());
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
  const { mode, heldBy } = modeOf(resource, object);
  if (policiesOf.length === 0 || mode === 'Off') return [];
  const options = { mode, heldBy, isRestored };
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
  return { stored, relink: { owners, uids: createUidRelinker(stored, patch) } };
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

/** One item for each stale uid; none for an object that no restore has created. */
export type RelinkUids = (
  resource: GroupResource,
  object: KubeObject,
  governing: readonly Pick<CompiledPolicy, 'references'>[],
  options: RelinkOptions,
  signal: AbortSignal,
) => Promise<readonly RelinkItem[]>;

interface Verdict {
  readonly place: TargetUid;
  readonly result: RelinkItem['result'] | 'Current';
  readonly message?: string;
  readonly now?: string;
  readonly apiVersion?: string | undefined;
}

export function createUidRelinker(stored: Pick<StoredObjects, 'read'>, patch: PatchGuarded): RelinkUids {
  return async (resource, listed, governing, options, signal) => {
    const { metadata = {} } = listed;
    if (metadata.deletionTimestamp !== undefined || targetUids(governing, listed).length === 0) return [];
    if (!options.isRestored({ creationTimestamp: metadata.creationTimestamp, labels: metadata.labels }))
      return [];
    const self = storedRef(resource, listed);
    const judge = async (object: KubeObject) =>
      await Promise.all(
        targetUids(governing, object).map((place) => judgeUid(place, object, stored, options, signal)),
      );

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

async function judgeUid(
  place: TargetUid,
  object: KubeObject,
  stored: Pick<StoredObjects, 'read'>,
  { isRestored }: RelinkOptions,
  signal: AbortSignal,
): Promise<Verdict> {
  const target = `${place.reference.targetKind} "${place.target.name}"`;
  try {
    const live = await stored.read(place.target, signal);
    if (live === undefined) {
      const message = `${target} not found; restore it as well, and the next sweep writes its uid`;
      return { place, result: 'OwnerMissing', message };
    }
    const { uid, creationTimestamp, deletionTimestamp, labels, namespace } = live.metadata ?? {};
    if (uid === undefined || uid === place.uid) return { place, result: 'Current' };
    if (deletionTimestamp !== undefined)
      return { place, result: 'OwnerTerminating', message: `${target} is being deleted` };
    if (
      isYounger({ creationTimestamp }, object.metadata ?? {}) &&
      !isRestored({ creationTimestamp, labels, namespace })
    ) {
      const message = `${target} is younger than the object and no restore has made it; write its uid if it is the target`;
      return { place, result: 'OwnerAmbiguous', message };
    }
    return { place, result: 'Linked', now: uid, apiVersion: live.apiVersion };
  } catch (error) {
    signal.throwIfAborted();
    return { place, result: 'Failed', message: `could not read ${target}: ${messageOf(error)}` };
  }
}

const uidPatch = (object: KubeObject, stale: readonly Verdict[]) => [
  ...unchanged(object),
  ...stale.map(({ place: { keys }, now }) => ({ op: 'replace', path: pointerOf(keys), value: now }) as const),
];

function toUidItem(object: KubeObject, { place, result, message, apiVersion }: Verdict): RelinkItem {
  const { target, reference, field } = place;
  const ref = { apiVersion: apiVersion ?? target.group, kind: reference.targetKind, name: target.name };
  return { ...toItem(object, ref, result === 'Current' ? 'Linked' : result, message), field };
}

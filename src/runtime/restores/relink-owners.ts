/**
 * On the leader: links stored objects to their owners again, if a policy preserves owners that a restore dropped, and
 * replaces stale uids of restored targets inside objects (`references[].uidPath`).
 */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { namesUids, targetUids, type TargetUid } from '../../admission/policy/references/target-uids.ts';
import { pointerOf } from '../../json/json-patch.ts';
import { isInScope } from '../../admission/policy/match/object-scope.ts';
import {
  type GroupResource,
  type KubeObject,
  groupResourceName,
  type ObjectRef,
} from '../../json/kube-object.ts';
import { mapConcurrent } from '../../json/map-concurrent.ts';
import type { RelinkItem } from '../../api/restore-findings.ts';
import {
  type Relink,
  type RelinkOptions,
  createRelinker,
  type PatchOutcome,
  type PatchGuarded,
} from './relink.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import { createAttribution } from '../../restore/attribution.ts';
import { OWNERS_MANAGER, type LinkOperation } from '../../restore/owner-links.ts';
import { restoringWindows, sweepMode, type SweepMode } from '../../restore/restored-by.ts';
import { relinkMode } from '../../restore/window.ts';
import { sha256 } from './restore-evidence.ts';
import { eachPage } from './sweep.ts';
import { storedObjects, type StoredObjects } from '../policies/stored-objects.ts';
import { served } from '../policies/world.ts';
import type { ControllersConfig } from '../../config/config.ts';
import type { Context } from '../context.ts';
import type { RestoreKinds } from './restore-kinds.ts';
import type { Owners } from '../../admission/policy/world.ts';
import type { PolicyRegistry } from '../policies/policy-registry.ts';
import { messageOf } from '../../json/error-message.ts';
import { subjectOf } from '../../restore/report.ts';

export interface RelinkedStored {
  readonly items: readonly RelinkItem[];
  /** Kinds that could not be read, with the reason. */
  readonly unreadable: readonly string[];
}

/** Limit for objects that are linked at the same time. Each takes three consecutive requests. */
const AT_ONCE = 16;

interface Relinkers {
  readonly owners: Relink;
  readonly uids: RelinkUids;
}

type RelinkTask = Pick<RelinkOptions, 'isRestored'> & {
  readonly modeOf: (resource: GroupResource, object: KubeObject) => SweepMode;
};

/** @throws the reason of `signal` on abort, and when the namespaces cannot be read */
export async function relinkStored(
  stored: Pick<StoredObjects, 'pages' | 'namespaceLabels'>,
  policies: readonly CompiledPolicy[],
  relink: Relinkers,
  { modeOf, isRestored }: RelinkTask,
  signal: AbortSignal,
): Promise<RelinkedStored> {
  const preserving = policies.filter((policy) => policy.preservesOwners || namesUids(policy));
  const items: RelinkItem[] = [];
  if (preserving.length === 0) return { items, unreadable: [] };
  const namespaces = await stored.namespaceLabels(signal);
  const unreadable = await eachPage(
    stored,
    preserving,
    async (page, resource, governing) => {
      const results = await mapConcurrent(page, AT_ONCE, async (object) => {
        const policiesOf = governing.filter((policy) => isInScope(policy, object, namespaces));
        const { mode, heldBy } = modeOf(resource, object);
        if (policiesOf.length === 0 || mode === 'Off') return [];
        const options = { mode, heldBy, isRestored };
        // Uids first: a link changes the object.
        const uids = await relink.uids(resource, object, policiesOf, options, signal);
        const preserves = policiesOf.some(({ preservesOwners }) => preservesOwners);
        return preserves ? [...uids, ...(await relink.owners(resource, object, options, signal))] : uids;
      });
      items.push(...results.flat());
    },
    signal,
  );
  return { items, unreadable };
}

export type RelinkOwners = ReturnType<typeof createRelinkOwners>;

export interface RelinkSources extends RestoreKinds {
  readonly registry: Pick<PolicyRegistry, 'inForce'>;
  readonly world: { readonly owners: Owners };
}

/** Relinks owners as part of the sweep of a window. Undefined when the window turns it off. */
export function createRelinkOwners(
  { client, discovery, config, namespaces }: Context<ControllersConfig>,
  { windows, detectors, registry, world }: RelinkSources,
) {
  const stored = storedObjects(client, discovery, undefined, namespaces);
  const patch = createPatch(client, discovery, OWNERS_MANAGER);
  const relink: Relinkers = {
    owners: createRelinker(world.owners, stored, patch),
    uids: createUidRelinker(stored, patch),
  };
  return async (window: RestoreWindow, signal: AbortSignal): Promise<RelinkedStored | undefined> => {
    if (relinkMode(window.spec) === 'Off') return undefined;
    const others = windows.store.list().filter(({ metadata }) => metadata.name !== window.metadata.name);
    const known = [[window, ...others], detectors.store.list(), config.restoreSettleMs, sha256] as const;
    const restoring = restoringWindows(...known);
    const { writer } = createAttribution(...known);
    const task: RelinkTask = {
      modeOf: (resource, { metadata = {} }) => {
        const belongsTo = restoring(metadata, resource);
        const owner = writer({ resource, written: { ...metadata, changedAt: [] } });
        // Each object is in the report of one window, whose sweep links its owners.
        const isLeft = owner !== undefined && owner !== window && belongsTo.includes(owner);
        return isLeft ? { mode: 'Off' } : sweepMode(window, belongsTo);
      },
      isRestored: (made) => restoring(made).length > 0,
    };
    return await relinkStored(stored, registry.inForce(), relink, task, signal);
  };
}

export function createPatch(
  client: Pick<KubeClient, 'patchJson'>,
  discovery: Pick<Discovery, 'resolve'>,
  fieldManager: string,
): PatchGuarded {
  return async (ref, operations, signal): Promise<PatchOutcome> => {
    const resource = await served(discovery, ref, signal);
    try {
      const object = await client.patchJson<KubeObject>(resource, ref, operations, { fieldManager, signal });
      return { kind: 'patched', object };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // 422 is a failed `test`, or an owner that the API server rejects.
      if ([404, 409, 422].includes(error.code)) return { kind: 'changed', message: error.message };
      if (error.code === 403) return { kind: 'forbidden', message: error.message };
      throw error;
    }
  };
}

/** One item for each stale uid; none for an object that no restore has created. */
type RelinkUids = (
  resource: GroupResource,
  object: KubeObject,
  governing: readonly Pick<CompiledPolicy, 'references'>[],
  options: RelinkOptions,
  signal: AbortSignal,
) => Promise<readonly RelinkItem[]>;

/** Attempts after a conflict. */
const ATTEMPTS = 5;

interface Verdict {
  readonly place: TargetUid;
  readonly result: RelinkItem['result'] | 'Current';
  readonly message?: string;
  /** The uid to write. */
  readonly now?: string;
  /** The version of the target, if it exists. */
  readonly apiVersion?: string | undefined;
}

/** Both functions read live. */
export function createUidRelinker(stored: Pick<StoredObjects, 'read'>, patch: PatchGuarded): RelinkUids {
  return async (resource, listed, governing, options, signal) => {
    const { metadata = {} } = listed;
    if (metadata.deletionTimestamp !== undefined || targetUids(governing, listed).length === 0) return [];
    if (!options.isRestored({ creationTimestamp: metadata.creationTimestamp, labels: metadata.labels }))
      return [];
    const { name = '', namespace, uid } = metadata;
    const self: ObjectRef = { ...resource, namespace, name };
    const judge = async (object: KubeObject) =>
      await Promise.all(
        targetUids(governing, object).map((place) => judgeUid(place, object, stored, options, signal)),
      );

    const linked = new Map<string, RelinkItem>();
    let trouble = '';
    let object: KubeObject | undefined = listed;
    for (let attempt = 0; attempt <= ATTEMPTS; attempt += 1) {
      if (object === undefined || object.metadata?.uid !== uid) return [];
      const verdicts: readonly Verdict[] = (await judge(object)).filter(({ result }) => result !== 'Current');
      const stale = verdicts.filter(({ result }) => result === 'Linked');
      const conclude = (adjust = (verdict: Verdict): Verdict => verdict) => [
        ...linked.values(),
        ...verdicts.map((verdict) => toItem(listed, adjust(verdict))),
      ];
      if (options.mode === 'Report') return conclude(asReport(options));
      if (stale.length === 0) return conclude();
      if (attempt === ATTEMPTS) return conclude(failed(trouble));
      const outcome = await patch(self, uidPatch(object, stale), signal);
      switch (outcome.kind) {
        case 'forbidden':
          return conclude(
            failed(`${outcome.message}; grant Gatehouse get and patch on ${groupResourceName(resource)}`),
          );
        case 'changed':
          trouble = outcome.message;
          object = await stored.read(self, signal);
          break;
        case 'patched':
          // The next attempt reads the targets again: one may have been replaced in the meantime.
          for (const verdict of stale) linked.set(verdict.place.field, toItem(listed, verdict));
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
      const message = `there is no ${target}; restore it too, and the next sweep writes its uid`;
      return { place, result: 'OwnerMissing', message };
    }
    const { uid, creationTimestamp = '', deletionTimestamp, labels, namespace } = live.metadata ?? {};
    if (uid === undefined || uid === place.uid) return { place, result: 'Current' };
    if (deletionTimestamp !== undefined)
      return { place, result: 'OwnerTerminating', message: `${target} is being deleted` };
    // creationTimestamp has whole seconds: a target of the same second does not count as younger.
    const isYounger = Date.parse(creationTimestamp) > Date.parse(object.metadata?.creationTimestamp ?? '');
    if (isYounger && !isRestored({ creationTimestamp, labels, namespace })) {
      const message = `${target} is younger than the object and no restore has made it; write its uid if it is the target`;
      return { place, result: 'OwnerAmbiguous', message };
    }
    return { place, result: 'Linked', now: uid, apiVersion: live.apiVersion };
  } catch (error) {
    signal.throwIfAborted();
    return { place, result: 'Failed', message: `could not read ${target}: ${messageOf(error)}` };
  }
}

function uidPatch({ metadata = {} }: KubeObject, stale: readonly Verdict[]): readonly LinkOperation[] {
  const { uid, resourceVersion } = metadata;
  return [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
    ...stale.map(({ place: { keys }, now }) => ({
      op: 'replace' as const,
      path: pointerOf(keys),
      value: now,
    })),
  ];
}

const asReport =
  ({ heldBy }: RelinkOptions) =>
  (verdict: Verdict): Verdict => {
    if (verdict.result !== 'Linked') return verdict;
    const message = `RestoreWindow "${heldBy ?? ''}" restored the object too, and holds the change back: approve the links of that window`;
    return { ...verdict, result: 'WouldLink', ...(heldBy === undefined ? {} : { message }) };
  };

const failed =
  (message: string) =>
  (verdict: Verdict): Verdict =>
    verdict.result === 'Linked' ? { ...verdict, result: 'Failed', message } : verdict;

function toItem(object: KubeObject, { place, result, message, apiVersion }: Verdict): RelinkItem {
  const { target, reference, field } = place;
  return {
    object: subjectOf(object),
    field,
    owner: { apiVersion: apiVersion ?? target.group, kind: reference.targetKind, name: target.name },
    result: result === 'Current' ? 'Linked' : result,
    ...(message === undefined ? {} : { message }),
  };
}

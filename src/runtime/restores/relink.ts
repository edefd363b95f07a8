/**
 * Links restored objects to their former owners. The garbage collector deletes an object with a wrong uid within a
 * second, so the leader reads each owner live, before and after the write.
 */
import type { LiveOwner, Owners } from '../../admission/policy/world.ts';
import {
  groupResourceName,
  type GroupResource,
  type KubeObject,
  type ObjectMeta,
  type ObjectRef,
  type OwnerReference,
} from '../../json/kube-object.ts';
import { ownerKey } from '../../api/owner-record.ts';
import type { RelinkItem } from '../../api/restore-findings.ts';
import {
  linkPatch,
  lostOwners,
  NO_LIMITS,
  planLinks,
  disownPatch,
  type LinkOperation,
  type LinkLimits,
  type LinkPlan,
  type OwnerState,
  type OwnerLinkResult,
  OWNERS_MANAGER,
} from '../../restore/owner-links.ts';
import { messageOf } from '../../json/error-message.ts';
import {
  type CreationMetadata,
  restoringWindows,
  sweepMode,
  type SweepMode,
} from '../../restore/restored-by.ts';
import { subjectOf } from '../../restore/report.ts';
import { type StoredObjects, storedObjects } from '../policies/stored-objects.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { namesUids, targetUids, type TargetUid } from '../../admission/policy/references/target-uids.ts';
import { pointerOf } from '../../json/json-patch.ts';
import { isInScope } from '../../admission/policy/match/object-scope.ts';
import { mapConcurrent } from '../../json/map-concurrent.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import { createAttribution } from '../../restore/attribution.ts';
import { relinkMode } from '../../restore/window.ts';
import { sha256 } from './restore-evidence.ts';
import { eachPage, refOf } from './sweep.ts';
import { served } from '../policies/world.ts';
import type { ControllersConfig } from '../../config/config.ts';
import type { Context } from '../context.ts';
import type { RestoreKinds } from './restore-kinds.ts';
import type { PolicyRegistry } from '../policies/policy-registry.ts';

export type PatchGuarded = (
  ref: ObjectRef,
  operations: readonly LinkOperation[],
  signal: AbortSignal,
) => Promise<PatchOutcome>;

interface Task {
  readonly owners: Pick<Owners, 'read'>;
  readonly stored: Pick<StoredObjects, 'read'>;
  readonly patch: PatchGuarded;
  readonly resource: GroupResource;
  readonly options: RelinkOptions;
  readonly signal: AbortSignal;
}

/** The outcome of a patch. If the outcome is unknown, the patch throws. */
export type PatchOutcome =
  | { readonly kind: 'patched'; readonly object: KubeObject }
  /** The object has changed or was deleted: nothing was written. */
  | { readonly kind: 'changed'; readonly message: string }
  /** Gatehouse may not write this; the message comes from the API server. */
  | { readonly kind: 'forbidden'; readonly message: string };

export interface RelinkOptions {
  readonly mode: 'Link' | 'Report';
  readonly heldBy?: string | undefined;
  readonly isRestored: (made: CreationMetadata) => boolean;
}

/** One item for each recorded owner that is no longer linked; none for an object that no restore has created. */
export type Relink = (
  resource: GroupResource,
  object: KubeObject,
  options: RelinkOptions,
  signal: AbortSignal,
) => Promise<readonly RelinkItem[]>;

const ATTEMPTS = 5;

export function createRelinker(
  owners: Pick<Owners, 'read'>,
  stored: Pick<StoredObjects, 'read'>,
  patch: PatchGuarded,
): Relink {
  return async (resource, object, options, signal) => {
    const { metadata = {} } = object;
    const isLost = lostOwners(object).length > 0;
    const isStale = options.mode === 'Link' && disownPatch(object) !== undefined;
    if (metadata.deletionTimestamp !== undefined || (!isLost && !isStale)) return [];
    if (!options.isRestored({ creationTimestamp: metadata.creationTimestamp, labels: metadata.labels }))
      return [];
    const task = { owners, stored, patch, resource, options, signal };
    try {
      const items = isLost ? await relink(task, object) : [];
      if (options.mode === 'Link') await disown(task, object, isStale && items.length === 0);
      return items;
    } catch (error) {
      signal.throwIfAborted();
      const message = messageOf(error);
      return lostOwners(object).map((ref) => toItem(object, { ref, result: 'Failed', message }));
    }
  };
}

/** Also after a link at admission: the backup tool writes the old managedFields later. Gives up after some conflicts. */
async function disown({ stored, patch, resource, signal }: Task, listed: KubeObject, isFresh: boolean) {
  const self = refOf(resource, listed);
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const object = isFresh && attempt === 0 ? listed : await stored.read(self, signal);
    if (object === undefined || object.metadata?.uid !== listed.metadata?.uid) return;
    const operations = disownPatch(object);
    if (operations === undefined) return;
    const outcome = await patch(self, operations, signal);
    if (outcome.kind !== 'changed') return;
  }
}

type States = ReadonlyMap<string, OwnerState>;

interface Progress {
  readonly object: KubeObject;
  readonly states: States;
  readonly limits: LinkLimits;
  readonly verdicts: ReadonlyMap<string, OwnerLinkResult>;
  readonly trouble: string;
}

async function relink(task: Task, listed: KubeObject): Promise<readonly RelinkItem[]> {
  const { stored, patch, resource, options, signal } = task;
  let progress: Progress = {
    object: listed,
    states: await readOwners(task, listed, lostOwners(listed)),
    limits: NO_LIMITS,
    verdicts: new Map(),
    trouble: '',
  };
  for (let attempt = 0; ; attempt += 1) {
    const { object, states, limits, trouble } = progress;
    // After the last attempt, wrong links are removed and the next sweep retries.
    const plan = planLinks(resource, object, attempt < ATTEMPTS ? stateIn(states) : gaveUp(trouble), limits);
    const conclude = (adjust?: (verdict: OwnerLinkResult) => OwnerLinkResult) =>
      [...noted(progress, plan, adjust).values()].map((verdict) => toItem(listed, verdict));
    if (options.mode === 'Report') return conclude(heldBack(options, 'link'));
    if (!plan.changes || attempt >= 2 * ATTEMPTS) return conclude();

    const self = refOf(resource, listed);
    const outcome = await patch(self, linkPatch(object, plan), signal);
    switch (outcome.kind) {
      case 'forbidden':
        if (!limits.mayBlock || !plan.verdicts.some(blocks))
          return conclude(
            instead(
              'Failed',
              `${outcome.message}; grant Gatehouse get, patch and delete on ${groupResourceName(resource)}`,
            ),
          );
        progress = { ...progress, limits: { ...limits, mayBlock: false } };
        break;
      case 'changed': {
        const live = await stored.read(self, signal);
        if (live === undefined || live.metadata?.uid !== object.metadata?.uid) return [];
        if (live.metadata?.deletionTimestamp !== undefined) return [];
        const again = await readOwners(task, live, lostOwners(live, limits));
        progress = { ...progress, object: live, states: again, trouble: outcome.message };
        break;
      }
      case 'patched':
        progress = await verified({ ...progress, object: outcome.object }, plan, task);
        break;
    }
  }
}

/** Reads the linked owners again. A link to an owner that was replaced in the meantime must be removed at once. */
async function verified(progress: Progress, plan: LinkPlan, task: Task): Promise<Progress> {
  const { object, states, limits } = progress;
  const linked = plan.verdicts.filter(({ result }) => result === 'Linked').map(({ ref }) => ref);
  const after = await readOwners(task, object, linked);
  const stale = linked.map(ownerKey).flatMap((key) => uidsReplaced(states.get(key), after.get(key)));
  return {
    ...progress,
    verdicts: noted(progress, plan, limits.mayBlock ? undefined : withoutBlock),
    states: new Map([...states, ...after]),
    limits: { ...limits, stale: new Set([...limits.stale, ...stale]) },
    trouble: 'it was replaced while it was linked',
  };
}

function noted(
  { verdicts }: Progress,
  plan: LinkPlan,
  adjust = (verdict: OwnerLinkResult): OwnerLinkResult => verdict,
): ReadonlyMap<string, OwnerLinkResult> {
  return new Map([
    ...verdicts,
    ...plan.verdicts.map((verdict) => [ownerKey(verdict.ref), adjust(verdict)] as const),
  ]);
}

async function readOwners(
  { owners, options, signal }: Task,
  { metadata = {} }: KubeObject,
  refs: readonly OwnerReference[],
): Promise<States> {
  const toState = async (ref: OwnerReference): Promise<OwnerState> => {
    try {
      const owner = await owners.read(ref, metadata.namespace, signal);
      if (owner === undefined) return { kind: 'missing' };
      const { uid, apiVersion, deletionTimestamp } = owner;
      const isDoubtful = isYounger(owner, metadata) && !options.isRestored(owner);
      return { kind: 'found', uid, apiVersion, isTerminating: deletionTimestamp !== undefined, isDoubtful };
    } catch (error) {
      signal.throwIfAborted();
      return { kind: 'unknown', message: `could not read ${ref.kind} "${ref.name}": ${messageOf(error)}` };
    }
  };
  const all = await Promise.all(refs.map(async (ref) => [ownerKey(ref), await toState(ref)] as const));
  return new Map(all);
}

const stateIn =
  (states: States) =>
  (ref: OwnerReference): OwnerState =>
    states.get(ownerKey(ref)) ?? { kind: 'unknown', message: 'it was recorded a moment ago' };

const gaveUp = (message: string) => (): OwnerState => ({ kind: 'unknown', message });

/** creationTimestamp has whole seconds: an owner created in the same second does not count as younger. */
function isYounger(owner: Pick<LiveOwner, 'creationTimestamp'>, { creationTimestamp }: ObjectMeta): boolean {
  return Date.parse(owner.creationTimestamp ?? '') > Date.parse(creationTimestamp ?? '');
}

/** The written uid, if the owner now has another uid or is gone. An owner that cannot be read counts as unchanged. */
function uidsReplaced(written: OwnerState | undefined, now: OwnerState | undefined): readonly string[] {
  if (written?.kind !== 'found' || now === undefined || now.kind === 'unknown') return [];
  return now.kind === 'found' && now.uid === written.uid ? [] : [written.uid];
}

const blocks = ({ result, ref }: OwnerLinkResult): boolean =>
  result === 'Linked' && ref.blockOwnerDeletion === true;

const instead =
  (result: 'WouldLink' | 'Failed', message: string | undefined) =>
  <Verdict extends { readonly result: string }>(verdict: Verdict): Verdict =>
    verdict.result === 'Linked'
      ? { ...verdict, result, ...(message === undefined ? {} : { message }) }
      : verdict;

const heldBack = ({ heldBy }: RelinkOptions, what: 'link' | 'change') => {
  const why = `RestoreWindow "${heldBy ?? ''}" restored the object too, and holds the ${what} back`;
  return instead('WouldLink', heldBy === undefined ? undefined : `${why}: approve the links of that window`);
};

const withoutBlock = (verdict: OwnerLinkResult): OwnerLinkResult =>
  blocks(verdict)
    ? {
        ...verdict,
        message: `without blockOwnerDeletion, which takes update on the finalizers of ${verdict.ref.kind}: grant Gatehouse that`,
      }
    : verdict;

type Judged = Pick<RelinkItem, 'result'> & {
  readonly ref: RelinkItem['owner'];
  readonly message?: string | undefined;
};

function toItem(object: KubeObject, { ref, result, message }: Judged): RelinkItem {
  return {
    object: subjectOf(object),
    owner: { apiVersion: ref.apiVersion, kind: ref.kind, name: ref.name },
    result,
    ...(message === undefined ? {} : { message }),
  };
}

export interface RelinkedStored {
  readonly items: readonly RelinkItem[];
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
    const self = refOf(resource, listed);
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
          return conclude(
            instead(
              'Failed',
              `${outcome.message}; grant Gatehouse get and patch on ${groupResourceName(resource)}`,
            ),
          );
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
      const message = `there is no ${target}; restore it too, and the next sweep writes its uid`;
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

function toUidItem(object: KubeObject, { place, result, message, apiVersion }: Verdict): RelinkItem {
  const { target, reference, field } = place;
  const ref = { apiVersion: apiVersion ?? target.group, kind: reference.targetKind, name: target.name };
  return { ...toItem(object, { ref, result: result === 'Current' ? 'Linked' : result, message }), field };
}

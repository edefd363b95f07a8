/**
 * Owner references of restored objects. The garbage collector deletes an object with a wrong uid within a second, so
 * the leader reads each owner live, before and after the write.
 */
import type { LiveOwner, Owners } from '../../admission/policy/world.ts';
import {
  groupResourceName,
  type GroupResource,
  type KubeObject,
  type ObjectMeta,
  type OwnerReference,
  type ObjectRef,
} from '../../json/kube-object.ts';
import { GROUP } from '../../api/group.ts';
import { ownerKey } from '../../api/owner-record.ts';
import type { RelinkItem } from '../../api/restore-findings.ts';
import {
  linkPatch,
  lostOwners,
  NO_LIMITS,
  planLinks,
  disownPatch,
  type LinkLimits,
  type LinkPlan,
  type OwnerState,
  type OwnerLinkResult,
} from '../../restore/owner-links.ts';
import { messageOf } from '../../json/abort.ts';
import { cut } from '../../json/printable.ts';
import type { CreationMetadata } from '../../restore/attribution.ts';
import { subjectOf } from '../../restore/report.ts';
import { type StoredObjects, storedRef } from '../policies/stored-objects.ts';
import type { JsonPatchOperation } from '../../json/json-patch.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import { served } from '../policies/world.ts';

interface Task {
  readonly owners: Pick<Owners, 'read'>;
  readonly stored: Pick<StoredObjects, 'read'>;
  readonly patch: PatchGuarded;
  readonly resource: GroupResource;
  readonly options: RelinkOptions;
  readonly signal: AbortSignal;
}

export interface RelinkOptions {
  readonly mode: 'Link' | 'Report';
  readonly heldBy?: string | undefined;
  readonly mayBlock?: boolean;
  readonly isRestored: (made: CreationMetadata) => boolean;
}

/** One item for each recorded owner that is not linked now. Ignores objects that no restore has created. */
export type Relink = (
  resource: GroupResource,
  object: KubeObject,
  options: RelinkOptions,
  signal: AbortSignal,
) => Promise<readonly RelinkItem[]>;

export const ATTEMPTS = 5;

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
      if (options.mode === 'Report') return items;
      return [...items, ...(await disown(task, object, isStale && items.length === 0))];
    } catch (error) {
      signal.throwIfAborted();
      const message = messageOf(error);
      return lostOwners(object).map((ref) => toItem(object, ref, 'Failed', message));
    }
  };
}

/** Even after a link at admission: the backup tool writes the old managedFields later. Gives up after some conflicts. */
async function disown(
  { stored, patch, resource, signal }: Task,
  listed: KubeObject,
  isFresh: boolean,
): Promise<readonly RelinkItem[]> {
  const self = storedRef(resource, listed);
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const object = isFresh && attempt === 0 ? listed : await stored.read(self, signal);
    if (object === undefined || object.metadata?.uid !== listed.metadata?.uid) return [];
    const operations = disownPatch(object);
    if (operations === undefined) return [];
    const outcome = await patch(self, operations, signal);
    if (outcome.kind === 'forbidden') {
      const why = `metadata.managedFields still contains an old uid: ${withAdvice(outcome.message, resource, PATCH)}`;
      const [owner] = object.metadata?.ownerReferences ?? [];
      return owner === undefined ? [] : [toItem(listed, owner, 'Failed', why)];
    }
    if (outcome.kind === 'patched') return [];
  }
  return [];
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
    limits: { ...NO_LIMITS, mayBlock: options.mayBlock !== false },
    verdicts: new Map(),
    trouble: '',
  };
  for (let attempt = 0; ; attempt += 1) {
    const { object, states, limits, trouble } = progress;
    // After the last attempt, wrong links are removed and the next sweep retries.
    const plan = planLinks(resource, object, attempt < ATTEMPTS ? stateIn(states) : gaveUp(trouble), limits);
    const conclude = (adjust?: (verdict: OwnerLinkResult) => OwnerLinkResult) =>
      [...noted(progress, plan, adjust).values()].map(({ ref, result, message }) =>
        toItem(listed, ref, result, message),
      );
    if (options.mode === 'Report') return conclude(heldBack(options, 'link'));
    if (!plan.changes || attempt >= 2 * ATTEMPTS) return conclude();

    const self = storedRef(resource, listed);
    const outcome = await patch(self, linkPatch(object, plan), signal);
    switch (outcome.kind) {
      case 'forbidden':
        if (!limits.mayBlock || !plan.verdicts.some(blocks))
          return conclude(instead('Failed', withAdvice(outcome.message, resource, 'get, patch and delete')));
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

/** Reads the linked owners again. A link to an owner that has been replaced must be removed immediately. */
async function verified(progress: Progress, plan: LinkPlan, task: Task): Promise<Progress> {
  const { object, states, limits } = progress;
  const linked = plan.verdicts.filter(({ result }) => result === 'Linked').map(({ ref }) => ref);
  const after = await readOwners(task, object, linked);
  const stale = linked.map(ownerKey).flatMap((key) => uidsReplaced(states.get(key), after.get(key)));
  return {
    ...progress,
    verdicts: noted(progress, plan, limits.mayBlock ? undefined : withoutBlock(task.options)),
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
  const found = plan.verdicts.map((verdict) => [ownerKey(verdict.ref), adjust(verdict)] as const);
  return new Map([...verdicts, ...found]);
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
export function isYounger(
  owner: Pick<LiveOwner, 'creationTimestamp'>,
  { creationTimestamp }: ObjectMeta,
): boolean {
  return Date.parse(owner.creationTimestamp ?? '') > Date.parse(creationTimestamp ?? '');
}

/** The written uid, if the owner now has another uid or is gone. An owner that cannot be read counts as unchanged. */
function uidsReplaced(written: OwnerState | undefined, now: OwnerState | undefined): readonly string[] {
  if (written?.kind !== 'found' || now === undefined || now.kind === 'unknown') return [];
  return now.kind === 'found' && now.uid === written.uid ? [] : [written.uid];
}

const blocks = ({ result, ref }: OwnerLinkResult): boolean =>
  result === 'Linked' && ref.blockOwnerDeletion === true;

export const instead =
  (result: 'WouldLink' | 'Failed', message: string | undefined) =>
  <Verdict extends { readonly result: string }>(verdict: Verdict): Verdict =>
    verdict.result === 'Linked'
      ? { ...verdict, result, ...(message === undefined ? {} : { message }) }
      : verdict;

export const PATCH = 'get and patch';

/** What to do depends on who has refused the write. */
export function withAdvice(problem: string, resource: GroupResource, verbs: string): string {
  const [, webhook] = /admission webhook "([^"]+)" denied/.exec(problem) ?? [];
  const [, policy] = /ValidatingAdmissionPolicy '([^']+)'/.exec(problem) ?? [];
  const by = webhook ?? policy;
  if (by?.endsWith(`.${GROUP}`) === true)
    return `${problem}; add an exception for Gatehouse's controllers to the policy`;
  if (by?.startsWith('gatehouse-backstop-') === true)
    return `${problem}; write the field yourself, because the backstop limits what Gatehouse changes`;
  return by === undefined
    ? `${problem}; grant Gatehouse ${verbs} on ${groupResourceName(resource)}`
    : `${problem}; exclude Gatehouse's controllers from ${by}`;
}

export const heldBack = ({ heldBy }: RelinkOptions, what: 'link' | 'change') => {
  const why = `RestoreWindow "${heldBy ?? ''}" also restored the object, and defers the ${what}`;
  return instead('WouldLink', heldBy === undefined ? undefined : `${why}: approve the links of that window`);
};

const withoutBlock =
  ({ mayBlock }: RelinkOptions) =>
  (verdict: OwnerLinkResult): OwnerLinkResult => {
    const message =
      mayBlock === false
        ? 'without blockOwnerDeletion, because a RestoreWindow that covers the object is not for the whole cluster'
        : `without blockOwnerDeletion, which requires update on the finalizers of ${verdict.ref.kind}: grant it to Gatehouse`;
    return blocks(verdict) ? { ...verdict, message } : verdict;
  };

export function toItem(
  object: KubeObject,
  ref: RelinkItem['owner'],
  result: RelinkItem['result'],
  message?: string,
): RelinkItem {
  return {
    object: subjectOf(object),
    owner: { apiVersion: ref.apiVersion, kind: ref.kind, name: ref.name },
    result,
    ...(message === undefined ? {} : { message: cut(message, 512) }),
  };
}

export type PatchGuarded = ReturnType<typeof createPatch>;

export type PatchOutcome =
  | { readonly kind: 'patched'; readonly object: KubeObject }
  /** The object has changed or was deleted: nothing was written. */
  | { readonly kind: 'changed'; readonly message: string }
  /** Gatehouse lacks the permission; the message comes from the API server. */
  | { readonly kind: 'forbidden'; readonly message: string };

/** A JSON Patch that tests the version of the object. */
export function createPatch(
  client: Pick<KubeClient, 'patchJson'>,
  discovery: Pick<Discovery, 'resolve'>,
  fieldManager: string,
) {
  return async (
    ref: ObjectRef,
    operations: readonly JsonPatchOperation[],
    signal: AbortSignal,
  ): Promise<PatchOutcome> => {
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

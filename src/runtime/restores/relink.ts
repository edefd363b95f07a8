/**
 * In a sweep: the owners that a restored object had are linked again. A reference with a wrong uid has the garbage collector
 * delete the object within a second, so each is read live before it is written, and again afterwards.
 */
import type { LiveOwner, Owners } from '../../admission/policy/world.ts';
import {
  groupResourceName,
  type GroupResource,
  type KubeObject,
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
  type LinkOperation,
  type LinkLimits,
  type LinkPlan,
  type OwnerState,
  type OwnerLinkResult,
} from '../../restore/owner-links.ts';
import type { Made } from '../../restore/restored-by.ts';
import { subjectOf } from '../../restore/report.ts';

export interface RelinkDeps {
  readonly readOwner: Owners['read'];
  /** Live. */
  readonly read: (ref: ObjectRef, signal: AbortSignal) => Promise<KubeObject | undefined>;
  readonly patch: (
    ref: ObjectRef,
    operations: readonly LinkOperation[],
    signal: AbortSignal,
  ) => Promise<PatchOutcome>;
}

/** What became of a patch; it throws where nobody can tell. */
export type PatchOutcome =
  | { readonly kind: 'patched'; readonly object: KubeObject }
  /** It is no longer the object that was judged, or has gone: nothing was written. */
  | { readonly kind: 'changed'; readonly message: string }
  /** We may not write this; the message is that of the API server. */
  | { readonly kind: 'forbidden'; readonly message: string };

export interface RelinkOptions {
  /** Report: nothing is written. */
  readonly mode: 'Link' | 'Report';
  /** Whether a restore has created it. */
  readonly isRestored: (made: Made) => boolean;
}

/** One item for each owner that was recorded and lost; none for an object that no restore has made. */
export type Relink = (
  resource: GroupResource,
  object: KubeObject,
  options: RelinkOptions,
  signal: AbortSignal,
) => Promise<readonly RelinkItem[]>;

/** Others write to restored objects too, their controllers first of all. */
const ATTEMPTS = 5;

export function createRelinker(deps: RelinkDeps): Relink {
  return async (resource, object, options, signal) => {
    if (!isRelinkable(object, options)) return [];
    try {
      return await relink(deps, resource, object, options, signal);
    } catch (error) {
      signal.throwIfAborted();
      const message = error instanceof Error ? error.message : String(error);
      return lostOwners(object).map((ref) => toItem(object, { ref, result: 'Failed', message }));
    }
  };
}

function isRelinkable(object: KubeObject, { isRestored }: RelinkOptions): boolean {
  const { metadata = {} } = object;
  if (metadata.deletionTimestamp !== undefined || lostOwners(object).length === 0) return false;
  return isRestored({ creationTimestamp: metadata.creationTimestamp, labels: metadata.labels });
}

type States = ReadonlyMap<string, OwnerState>;

/** What is known of the object and its owners, and what has come of it so far. */
interface Progress {
  readonly object: KubeObject;
  readonly states: States;
  readonly limits: LinkLimits;
  /** By owner. */
  readonly verdicts: ReadonlyMap<string, OwnerLinkResult>;
  /** Why it has to be tried again. */
  readonly trouble: string;
}

async function relink(
  deps: RelinkDeps,
  resource: GroupResource,
  listed: KubeObject,
  options: RelinkOptions,
  signal: AbortSignal,
): Promise<readonly RelinkItem[]> {
  const look: Look = (object, refs) => statesOf(deps, object, refs, options, signal);
  let progress: Progress = {
    object: listed,
    states: await look(listed, lostOwners(listed)),
    limits: NO_LIMITS,
    verdicts: new Map(),
    trouble: '',
  };
  for (let attempt = 0; ; attempt += 1) {
    const { object, states, limits, trouble } = progress;
    // In the end what has turned out to be wrong is taken back, and the next sweep tries again.
    const plan = planLinks(resource, object, attempt < ATTEMPTS ? stateIn(states) : gaveUp(trouble), limits);
    const conclude = (adjust?: (verdict: OwnerLinkResult) => OwnerLinkResult) =>
      [...noted(progress, plan, adjust).values()].map((verdict) => toItem(listed, verdict));
    if (options.mode === 'Report') return conclude(asReport);
    if (!plan.changes || attempt >= 2 * ATTEMPTS) return conclude();

    const { name = '', namespace } = listed.metadata ?? {};
    const self: ObjectRef = { ...resource, namespace, name };
    const outcome = await deps.patch(self, linkPatch(object, plan), signal);
    switch (outcome.kind) {
      case 'forbidden':
        if (!limits.mayBlock || !plan.verdicts.some(blocks))
          return conclude(refusedBy(resource, outcome.message));
        progress = { ...progress, limits: { ...limits, mayBlock: false } };
        break;
      case 'changed': {
        const live = await deps.read(self, signal);
        if (live === undefined || live.metadata?.uid !== object.metadata?.uid) return [];
        if (live.metadata?.deletionTimestamp !== undefined) return [];
        const again = await look(live, lostOwners(live, limits));
        progress = { ...progress, object: live, states: again, trouble: outcome.message };
        break;
      }
      case 'patched':
        progress = await verified({ ...progress, object: outcome.object }, plan, look);
        break;
    }
  }
}

type Look = (object: KubeObject, refs: readonly OwnerReference[]) => Promise<States>;

/** The owners that were linked, read once more: one that was replaced meanwhile is to be taken back at once. */
async function verified(progress: Progress, plan: LinkPlan, look: Look): Promise<Progress> {
  const { object, states, limits } = progress;
  const linked = plan.verdicts.filter(({ result }) => result === 'Linked').map(({ ref }) => ref);
  const after = await look(object, linked);
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

async function statesOf(
  { readOwner }: RelinkDeps,
  { metadata = {} }: KubeObject,
  refs: readonly OwnerReference[],
  { isRestored }: RelinkOptions,
  signal: AbortSignal,
): Promise<States> {
  const toState = async (ref: OwnerReference): Promise<OwnerState> => {
    try {
      const owner = await readOwner(ref, metadata.namespace, signal);
      if (owner === undefined) return { kind: 'missing' };
      const { uid, apiVersion, deletionTimestamp } = owner;
      const isDoubtful = isYounger(owner, metadata) && !isRestored(owner);
      return { kind: 'found', uid, apiVersion, isTerminating: deletionTimestamp !== undefined, isDoubtful };
    } catch (error) {
      signal.throwIfAborted();
      const cause = error instanceof Error ? error.message : String(error);
      return { kind: 'unknown', message: `could not read ${ref.kind} "${ref.name}": ${cause}` };
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

/** Times of creation have whole seconds: within the same one nobody can tell. */
function isYounger(
  owner: LiveOwner,
  { creationTimestamp }: { readonly creationTimestamp?: string },
): boolean {
  return Date.parse(owner.creationTimestamp ?? '') > Date.parse(creationTimestamp ?? '');
}

/** The uid that was written, if it is not the one of today. An owner that could not be read again counts as there. */
function uidsReplaced(written: OwnerState | undefined, now: OwnerState | undefined): readonly string[] {
  if (written?.kind !== 'found' || now === undefined || now.kind === 'unknown') return [];
  return now.kind === 'found' && now.uid === written.uid ? [] : [written.uid];
}

const blocks = ({ result, ref }: OwnerLinkResult): boolean =>
  result === 'Linked' && ref.blockOwnerDeletion === true;

const asReport = (verdict: OwnerLinkResult): OwnerLinkResult =>
  verdict.result === 'Linked' ? { ...verdict, result: 'WouldLink' } : verdict;

const withoutBlock = (verdict: OwnerLinkResult): OwnerLinkResult =>
  blocks(verdict)
    ? {
        ...verdict,
        message: `without blockOwnerDeletion, which takes update on the finalizers of ${verdict.ref.kind}: grant Gatehouse that`,
      }
    : verdict;

const refusedBy =
  (resource: GroupResource, message: string) =>
  (verdict: OwnerLinkResult): OwnerLinkResult =>
    verdict.result === 'Linked'
      ? {
          ...verdict,
          result: 'Failed',
          message: `${message}; grant Gatehouse get, patch and delete on ${groupResourceName(resource)}`,
        }
      : verdict;

function toItem(object: KubeObject, { ref, result, message }: OwnerLinkResult): RelinkItem {
  return {
    object: subjectOf(object),
    owner: { apiVersion: ref.apiVersion, kind: ref.kind, name: ref.name },
    result,
    ...(message === undefined ? {} : { message }),
  };
}

/**
 * On the leader: after a target is deleted, deletes or changes the objects that named it (`onTargetDelete`). The work is
 * in the records that admission stored before each deletion, so another leader resumes it.
 *
 * Nothing is deleted on a guess. The leader acts only while a live read shows that the target is gone, the live list of
 * RestoreWindows shows no restore, and the object still names the target. Each write holds for one version of the object.
 */
import type { CompiledPolicy, CompiledReference } from '../../admission/policy/compiled-policy.ts';
import { exemptionOf } from '../../admission/policy/exceptions/exceptions.ts';
import { canGovern, isGovernedNow } from '../../admission/policy/match/object-scope.ts';
import { describeRef, targetKey } from '../../admission/policy/object-ref.ts';
import { hasDeletionTimestamp } from '../../admission/policy/object-metadata.ts';
import {
  actingReferences,
  readDeletionRecord,
  withGone,
  type DeletionRecord,
  type Prove,
} from '../../admission/policy/references/deletion-record.ts';
import { planReferrer } from '../../admission/policy/references/plan-referrer.ts';
import { storeDeletionRecords } from '../../admission/policy/references/record-deletion.ts';
import type { ClaimStore, GovernedIndex, World } from '../../admission/policy/world.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { isJsonObject } from '../../json/json.ts';
import type { KubeObject, ObjectRef } from '../../json/kube-object.ts';
import { mapConcurrent } from '../../json/map-concurrent.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Log } from '../../log.ts';
import { AWAIT_CHANGE, GONE, requeueIn, type Reconcile, type ReconcileResult } from '../controller.ts';
import { ADMISSION_POLICIES } from '../resources.ts';
import type { Outcome, WriteReferrer } from './write-referrer.ts';

export interface DeletionActionsOptions {
  /** The policies in force. */
  readonly policies: () => readonly CompiledPolicy[];
  readonly client: Pick<KubeClient, 'get'>;
  readonly claims: ClaimStore;
  readonly prove: Prove;
  readonly governed: Pick<GovernedIndex, 'referrers'>;
  readonly world: Pick<World, 'read' | 'confirm' | 'readGrants'>;
  /** Reads live which restore is not over; undefined: there is none. */
  readonly restoreInProgress: (signal: AbortSignal) => Promise<string | undefined>;
  readonly write: WriteReferrer;
  readonly onProgress: (progress: Progress) => void;
  /** By the clock of the API server. */
  readonly now: () => Date;
  readonly log: Log;
}

/** What the leader did, or why it waits. */
export interface Progress {
  readonly claim: string;
  readonly record: DeletionRecord;
  readonly state: 'waiting' | 'working' | 'stuck' | 'finished' | 'abandoned';
  /** Empty if nothing is wrong. */
  readonly message: string;
  readonly done: number;
  /** Objects that could not be deleted or changed. */
  readonly stuck: readonly { readonly object: KubeObject; readonly message: string }[];
}

/** The limit for the levels of a cascade. */
const MOST_DEPTH = 16;
/** Referrers between two checks that the target is still gone. */
const AT_ONCE = 8;
/** Referrers per reconcile: other deletions take turns. */
const PER_TURN = 400;
/** In milliseconds. */
const SOON_MS = 1_000;
const WAIT_MS = 5_000;
const STUCK_MS = 30_000;

/** Reconciles one record by its name. */
export function createDeletionActionsReconciler(options: DeletionActionsOptions): Reconcile {
  return async (name, signal) => {
    const claim = await options.claims.read(name, signal);
    if (claim === undefined) return GONE;
    const record = readDeletionRecord(claim, options.prove);
    if (record === undefined) {
      options.log.warn({ claim: name }, 'deleted the record of a deletion that Gatehouse has not written');
      return await drop(claim, options, signal);
    }
    return await pass({ ...options, claim, record, signal });
  };
}

interface Task extends DeletionActionsOptions {
  readonly claim: UniqueClaim;
  readonly record: DeletionRecord;
  readonly signal: AbortSignal;
}

async function pass(task: Task): Promise<ReconcileResult> {
  const { record, claims, now } = task;
  const found = await orderedBy(task);
  if (found === 'withdrawn')
    return await end(task, 'abandoned', 'the policy does not act on this deletion any more');
  if (found === undefined) return wait(task, `policy ${record.policy} is not enforced at the moment`);
  const target = await targetState(task);
  switch (target) {
    case 'recreated':
      return await end(task, 'abandoned', `${describeRef(record.target)} exists again`);
    case 'terminating':
      return wait(task, '', WAIT_MS);
    case 'present': {
      const left = record.admittedAt + claims.settleMs - now().getTime();
      if (left <= 0) return await end(task, 'abandoned', '');
      return wait(task, '', Math.min(left, SOON_MS));
    }
    case 'gone':
      break;
  }
  const restore = await task.restoreInProgress(task.signal);
  if (restore !== undefined) return wait(task, deferral(restore));
  if (record.depth > MOST_DEPTH) {
    const message = `the cascade has more than ${MOST_DEPTH} levels: delete or change the objects that name ${describeRef(record.target)}`;
    return await actOrFinish(task, found, message);
  }
  if (record.goneAt === undefined) {
    await claims.replace(withGone(task.claim, now().getTime()), task.signal);
    return requeueIn(0, now()); // with the new version of the record
  }
  return await actOrFinish(task, found);
}

const deferral = (restore: string): string =>
  `waits for the end of the restore of RestoreWindow "${restore}"`;

interface Ordering {
  readonly policy: CompiledPolicy;
  readonly reference: CompiledReference;
}

/** The reference that ordered the action, if it is in force. Undefined: that is not known at the moment. */
async function orderedBy({
  policies,
  record,
  client,
  signal,
}: Task): Promise<Ordering | 'withdrawn' | undefined> {
  const policy = policies().find(({ name }) => name === record.policy);
  const orders = (one: { readonly name: string }, action: string | undefined) =>
    one.name === record.reference && action === record.action;
  if (policy !== undefined && policy.undecidable === undefined) {
    const reference = actingReferences(policy, record.target).find((one) => orders(one, one.deleteAction));
    if (reference !== undefined) return { policy, reference };
  }
  const stored = await client.get<AdmissionPolicy>(ADMISSION_POLICIES, { name: record.policy }, { signal });
  const isOrdered =
    stored?.spec.validate?.references?.some((one) => orders(one, one.onTargetDelete)) ?? false;
  return isOrdered ? undefined : 'withdrawn';
}

/** From a live read. @throws if the API server gives no definite answer */
async function targetState({
  world,
  record,
  signal,
}: Task): Promise<'present' | 'terminating' | 'recreated' | 'gone'> {
  const live = await world.confirm(record.target, signal);
  if (live === undefined) return 'gone';
  if (live.metadata?.uid !== record.uid) return 'recreated';
  return isJsonObject(live) && hasDeletionTimestamp(live) ? 'terminating' : 'present';
}

function wait(task: Task, message: string, ms = WAIT_MS): ReconcileResult {
  const { claim, record, onProgress, now } = task;
  const state = message === '' ? 'working' : 'waiting';
  onProgress({ claim: nameOf(claim), record, state, message, done: 0, stuck: [] });
  return requeueIn(ms, now());
}

async function actOrFinish(
  task: Task,
  { policy, reference }: Ordering,
  refusal = '',
): Promise<ReconcileResult> {
  const { governed, record, claim, claims, now, onProgress } = task;
  const referrers = governed
    .referrers(record.target, [policy])
    ?.filter((ref) => canGovern(policy, ref) && targetKey(ref) !== targetKey(record.target));
  if (referrers === undefined)
    return wait(task, 'the objects that the policy governs are not listed yet', SOON_MS);
  const outcomes = refusal === '' ? await actOn(referrers.slice(0, PER_TURN), task, policy, reference) : [];
  const stuck = outcomes.flatMap((one) => (one.kind === 'stuck' ? [one] : []));
  const done = outcomes.filter(({ kind }) => kind === 'done').length;
  const isRefused = refusal !== '' && referrers.length > 0;
  const isOpen = isRefused || referrers.length > PER_TURN || outcomes.some(({ kind }) => kind !== 'left');
  if (!isOpen) {
    // A write that raced with the deletion may be stored until the settle time is over.
    const left = (record.goneAt ?? record.admittedAt) + claims.settleMs - now().getTime();
    if (left <= 0) return await end(task, 'finished', '');
    onProgress({ claim: nameOf(claim), record, state: 'finished', message: '', done: 0, stuck: [] });
    return requeueIn(left, now());
  }
  const message = isRefused ? refusal : (stuck[0]?.message ?? '');
  const state = message === '' ? 'working' : 'stuck';
  onProgress({ claim: nameOf(claim), record, state, message, done, stuck });
  const isOnlyStuck = isRefused || stuck.length === outcomes.filter(({ kind }) => kind !== 'left').length;
  return requeueIn(isOnlyStuck ? STUCK_MS : SOON_MS, now());
}

/** Stops as soon as the target exists again or a restore begins; the next pass says why. */
async function actOn(
  referrers: readonly ObjectRef[],
  task: Task,
  policy: CompiledPolicy,
  reference: CompiledReference,
): Promise<readonly Outcome[]> {
  const { world, signal, record, restoreInProgress } = task;
  if (referrers.length === 0) return [];
  const grants = await world.readGrants?.(undefined, signal);
  const outcomes: Outcome[] = [];
  for (let at = 0; at < referrers.length; at += AT_ONCE) {
    if ((await restoreInProgress(signal)) !== undefined) return [...outcomes, { kind: 'again' }];
    if ((await targetState(task)) !== 'gone') return [...outcomes, { kind: 'again' }];
    const batch = await mapConcurrent(
      referrers.slice(at, at + AT_ONCE),
      AT_ONCE,
      async (ref): Promise<Outcome> => {
        const object = await world.read(ref, signal, policy.match.apiVersions);
        const plan = planReferrer(record, reference, ref, object);
        if (plan.kind === 'leave' || object === undefined) return { kind: 'left' };
        if (isExempt(policy, reference, ref, object, grants, task)) return { kind: 'left' };
        if (!(await isGovernedNow(policy, object, world, signal))) return { kind: 'left' };
        if (plan.kind === 'delete') await recordNextLevel(ref, plan.uid, task);
        return await task.write(ref, object, plan, policy, signal);
      },
    );
    outcomes.push(...batch);
  }
  return outcomes;
}

/** Exempt objects may lose their target. */
function isExempt(
  policy: CompiledPolicy,
  reference: CompiledReference,
  { group, resource, namespace, name }: ObjectRef,
  object: KubeObject,
  grants: Awaited<ReturnType<NonNullable<World['readGrants']>>> | undefined,
  { now }: Task,
): boolean {
  if (!isJsonObject(object)) return false;
  const request = {
    userInfo: { username: '', uid: '', groups: [], extra: {} },
    resource: { group, version: '', resource },
    ...{ namespace, name, object, oldObject: undefined },
  };
  const context = { now: now().getTime(), ...(grants === undefined ? {} : { grants }) };
  return exemptionOf(policy, request, context).covers('references', reference.name);
}

/** The records of the next level say how deep it is. Admission keeps them. */
async function recordNextLevel(ref: ObjectRef, uid: string, task: Task): Promise<void> {
  const { policies, record, now, signal } = task;
  for (const policy of policies()) {
    if (actingReferences(policy, ref).length === 0) continue;
    await storeDeletionRecords(policy, ref, uid, record.depth + 1, task, now().getTime(), signal);
  }
}

const nameOf = ({ metadata: { name = '' } }: UniqueClaim): string => name;

async function end(task: Task, state: 'finished' | 'abandoned', message: string): Promise<ReconcileResult> {
  const { claim, record, onProgress, signal } = task;
  const result = await drop(claim, task, signal);
  onProgress({ claim: nameOf(claim), record, state, message, done: 0, stuck: [] });
  return result;
}

/** A changed record is of another deletion: the watch reports it. */
async function drop(
  claim: UniqueClaim,
  { claims }: Pick<DeletionActionsOptions, 'claims'>,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  return (await claims.remove(claim, signal)) === 'removed' ? GONE : AWAIT_CHANGE;
}

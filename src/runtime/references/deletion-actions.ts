/**
 * On the leader: after a target is deleted, deletes or changes the objects that referenced it (`onTargetDelete`).
 * Acts only while a live read shows that the target is gone, no restore may write either object, and the object still
 * references the target. Each write applies to one version of the object.
 */
import type { CompiledPolicy, CompiledReference } from '../../admission/policy/compiled-policy.ts';
import { canGovern, isGovernedNow } from '../../admission/policy/match/object-scope.ts';
import { describeRef, targetKey } from '../../admission/policy/object-ref.ts';
import {
  actingReferences,
  readDeletionRecord,
  withGone,
  type DeletionRecord,
  type Prove,
} from '../../admission/policy/references/deletion-record.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { AWAIT_CHANGE, GONE, requeueIn, type Reconcile, type ReconcileResult } from '../controller.ts';
import { ADMISSION_POLICIES } from '../resources.ts';
import { exemptionOf } from '../../admission/policy/exceptions/exceptions.ts';
import { LATE_MS, planReferrer, type ReferrerPlan } from '../../admission/policy/references/plan-referrer.ts';
import { storeDeletionRecords } from '../../admission/policy/references/record-deletion.ts';
import type { RequestWorld, ClaimStore, GovernedIndex } from '../../admission/policy/world.ts';
import { messageOf } from '../../json/abort.ts';
import { isJsonObject } from '../../json/json.ts';
import type { KubeObject, ObjectRef } from '../../json/kube-object.ts';
import { mapConcurrent } from '../../json/map-concurrent.ts';
import { NotLeaderError } from '../../kube/lease/fence.ts';
import { hasDeletionTimestamp } from '../../admission/policy/object-metadata.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Log } from '../../log.ts';
import type { Progress, Stuck } from './deletion-progress.ts';
import { ApiError, isConflict, isNotFound } from '../../kube/api-error.ts';
import type { Discovery } from '../../kube/discovery.ts';
import { served, versionAmong } from '../policies/world.ts';

const MOST_DEPTH = 16;
const SOON_MS = 1_000;
const WAIT_MS = 5_000;
const STUCK_MS = 30_000;

export function createDeletionActionsReconciler(options: DeletionActionsOptions): Reconcile {
  const seen = new Map<string, number>();
  return async (name, signal) => {
    const claim = await options.claims.read(name, signal);
    if (claim === undefined) {
      seen.delete(name);
      return GONE;
    }
    // Without the key, every record looks forged.
    if (options.prove('') === undefined) return requeueIn(WAIT_MS, options.now());
    const record = readDeletionRecord(claim, options.prove);
    if (record === undefined) {
      options.log.warn({ claim: name }, 'deleted the record of a deletion that Gatehouse has not written');
      return await drop(claim, options, signal);
    }
    return await pass({ ...options, claim, record, seen, signal });
  };
}

async function pass(task: Task): Promise<ReconcileResult> {
  const { record, claims, now } = task;
  const found = await orderedBy(task);
  if (found === 'withdrawn')
    return await end(task, 'abandoned', 'the policy does not act on this deletion any more');
  if (found === undefined) return wait(task, `policy ${record.policy} is not enforced at the moment`);
  const target = await targetState(task);
  const { name = '' } = task.claim.metadata;
  if (target === 'present' || target === 'terminating') task.seen.set(name, now().getTime());
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
  if (record.goneAt === undefined) {
    // Before anything waits: an object that a restore creates from now on is younger than the deletion. So is one that was
    // created while no leader looked, even if the target then waited for finalizers.
    const latest = (task.seen.get(name) ?? record.admittedAt) + claims.settleMs;
    const next = withGone(task.claim, Math.min(now().getTime(), latest), task.prove);
    if (next !== undefined) await claims.replace(next, task.signal);
    return requeueIn(0, now()); // with the new version of the record
  }
  const restores = await task.restoresInProgress(task.signal);
  const holding = restores.filter((one) => one.mayWrite(record.target));
  if (holding.length > 0) return await waitFor(holding, task);
  return await actOrFinish({ ...task, ...found }, restores);
}

async function waitFor(restores: readonly RestoreInProgress[], task: Task): Promise<ReconcileResult> {
  const { record, claim, claims, prove, signal } = task;
  // What was created since both began comes from the restore: times of creation have whole seconds.
  const begun = Math.min(...restores.map((one) => one.since));
  const since = Math.floor(Math.max(record.admittedAt, begun) / 1_000) * 1_000;
  const latest = since - 1 - LATE_MS;
  const next = latest < (record.goneAt ?? Infinity) ? withGone(claim, latest, prove) : undefined;
  if (next !== undefined) await claims.replace(next, signal);
  return wait(task, `waits for the end of the restore of RestoreWindow "${restores[0]?.window ?? ''}"`);
}

interface Ordering {
  readonly policy: CompiledPolicy;
  readonly reference: CompiledReference;
}

type OrderedTask = Task & Ordering;

/** The reference that ordered the action, if it is in force. Undefined: that is not known at the moment. */
async function orderedBy(task: Task): Promise<Ordering | 'withdrawn' | undefined> {
  const { policies, record, client, signal } = task;
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

function wait(task: Task, message: string, ms = WAIT_MS): ReconcileResult {
  report(task, { state: message === '' ? 'working' : 'waiting', message });
  return requeueIn(ms, task.now());
}

/** Only the objects that a restore may write wait for its end. */
async function actOrFinish(
  task: OrderedTask,
  restores: readonly RestoreInProgress[],
): Promise<ReconcileResult> {
  const { policy, governed, record, claims, now } = task;
  const referrers = governed
    .referrers(record.target, [policy])
    ?.filter((ref) => canGovern(policy, ref) && targetKey(ref) !== targetKey(record.target));
  if (referrers === undefined)
    return wait(task, 'the objects that the policy governs are not listed yet', SOON_MS);
  if (record.depth > MOST_DEPTH && referrers.length > 0) {
    const message = `the cascade has more than ${MOST_DEPTH} levels: delete or change the objects that reference ${describeRef(record.target)}`;
    report(task, { state: 'stuck', message });
    return requeueIn(STUCK_MS, now());
  }
  const holding = restores.filter((one) => referrers.some(one.mayWrite));
  const outcomes = await actOn(
    referrers.filter((ref) => !holding.some((one) => one.mayWrite(ref))),
    task,
  );
  // After the others, because it also changes which of them count as restored.
  const waiting = holding.length === 0 ? undefined : await waitFor(holding, task);
  const open = outcomes.filter(({ kind }) => kind !== 'left');
  if (open.length > 0) {
    const stuck = open.filter((one) => one.kind === 'stuck');
    const done = open.filter(({ kind }) => kind === 'done').length;
    const [first] = stuck;
    const state = first === undefined ? 'working' : 'stuck';
    report(task, { state, message: first?.message ?? '', done, stuck });
    return requeueIn(stuck.length === open.length ? STUCK_MS : SOON_MS, now());
  }
  if (waiting !== undefined) return waiting;
  // A write that raced with the deletion may be stored until the settle time is over.
  const left = (record.goneAt ?? record.admittedAt) + claims.settleMs - now().getTime();
  if (left <= 0) return await end(task, 'finished', '');
  report(task, { state: 'finished' });
  return requeueIn(left, now());
}

async function end(task: Task, state: 'finished' | 'abandoned', message: string): Promise<ReconcileResult> {
  const result = await drop(task.claim, task, task.signal);
  task.seen.delete(task.claim.metadata.name ?? '');
  report(task, { state, message });
  return result;
}

/** A record that has changed belongs to another deletion, and the watch reports it. */
async function drop(
  claim: UniqueClaim,
  { claims }: Pick<DeletionActionsOptions, 'claims'>,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  return (await claims.remove(claim, signal)) === 'removed' ? GONE : AWAIT_CHANGE;
}

type Outcome = { readonly kind: 'done' | 'left' | 'again' } | ({ readonly kind: 'stuck' } & Stuck);

/** Referrers between two checks that the target is still gone. */
const AT_ONCE = 8;
const REPORT_MS = 10_000;

/** Stops as soon as the target exists again or a restore begins; the next pass says why. */
async function actOn(referrers: readonly ObjectRef[], task: OrderedTask): Promise<readonly Outcome[]> {
  if (referrers.length === 0) return [];
  const { record, world, signal, restoresInProgress, now } = task;
  const grants = await world.readGrants?.(undefined, signal);
  const outcomes: Outcome[] = [];
  let reportedAt = now().getTime();
  for (let at = 0; at < referrers.length; at += AT_ONCE) {
    const batch = referrers.slice(at, at + AT_ONCE);
    const found = await mapConcurrent(batch, AT_ONCE, (ref) =>
      orStuck(ref, signal, () => findWork(ref, task, grants)),
    );
    // After reading the objects: each write applies to a version that referenced the target while that was gone.
    const restores = await restoresInProgress(signal);
    if (restores.some(({ mayWrite }) => [record.target, ...batch].some(mayWrite)))
      return [...outcomes, { kind: 'again' }];
    if ((await targetState(task)) !== 'gone') return [...outcomes, { kind: 'again' }];
    const act = async (one: Work | Outcome): Promise<Outcome> =>
      'plan' in one ? await orStuck(one.ref, signal, () => write(one, task)) : one;
    outcomes.push(...(await mapConcurrent(found, AT_ONCE, act)));
    if (now().getTime() - reportedAt < REPORT_MS) continue;
    reportedAt = now().getTime();
    report(task, { state: 'working', message: `${outcomes.length} of ${referrers.length} objects are done` });
  }
  return outcomes;
}

/** An object that cannot be read or changed must not block the others. */
async function orStuck<T>(
  ref: ObjectRef,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T | Extract<Outcome, { kind: 'stuck' }>> {
  try {
    return await work();
  } catch (error) {
    if (signal.aborted || error instanceof NotLeaderError) throw error;
    return { kind: 'stuck', object: undefined, message: `${describeRef(ref)}: ${messageOf(error)}` };
  }
}

type GrantsRead = Awaited<ReturnType<NonNullable<RequestWorld['readGrants']>>> | undefined;

interface Work {
  readonly ref: ObjectRef;
  readonly object: KubeObject;
  readonly plan: Exclude<ReferrerPlan, { kind: 'leave' }>;
}

async function findWork(ref: ObjectRef, task: OrderedTask, grants: GrantsRead): Promise<Work | Outcome> {
  const { policy, reference, world, signal, record } = task;
  const object = await world.read(ref, signal, policy.match.apiVersions);
  const plan = planReferrer(record, reference, ref, object);
  if (plan.kind === 'leave' || object === undefined) return LEFT;
  if (isExempt(ref, object, grants, task)) return LEFT;
  return (await isGovernedNow(policy, object, world, signal)) ? { ref, object, plan } : LEFT;
}

async function write({ ref, object, plan }: Work, task: OrderedTask): Promise<Outcome> {
  const { policy, reference } = task;
  const stuck = (why: string): Outcome => {
    return { kind: 'stuck', object, message: `${describeRef(ref)}: ${why}` };
  };
  if (plan.kind === 'blocked') return stuck(plan.message);
  if (plan.kind === 'delete') await recordNextLevel(ref, plan.uid, task);
  const written = await task.write(ref, object, plan, policy, task.signal);
  if (written.kind === 'refused') return stuck(written.message);
  // A default of a policy, or another webhook, can write the name again with each change.
  const isBack =
    written.kind === 'patched' && planReferrer(task.record, reference, ref, written.object).kind !== 'leave';
  if (isBack) return stuck('another client or a policy writes the reference back');
  return written.kind === 'changed' ? { kind: 'again' } : { kind: 'done' };
}

const LEFT: Outcome = { kind: 'left' };

function isExempt(
  { group, resource, namespace, name }: ObjectRef,
  object: KubeObject,
  grants: GrantsRead,
  { policy, reference, now }: OrderedTask,
): boolean {
  if (!isJsonObject(object)) return false;
  const request = {
    userInfo: { username: '', uid: '', groups: [], extra: {} },
    resource: { group, version: '', resource },
    namespace,
    name,
    object,
    oldObject: undefined,
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

interface RestoreInProgress {
  readonly window: string;
  /** In milliseconds since 1970. */
  readonly since: number;
  readonly mayWrite: (ref: ObjectRef) => boolean;
}

export interface DeletionActionsOptions {
  readonly policies: () => readonly CompiledPolicy[];
  readonly client: Pick<KubeClient, 'get'>;
  readonly claims: ClaimStore;
  readonly prove: Prove;
  readonly governed: Pick<GovernedIndex, 'referrers'>;
  readonly world: Pick<RequestWorld, 'read' | 'confirm' | 'readGrants'>;
  /** Reads live which restores are not over. */
  readonly restoresInProgress: (signal: AbortSignal) => Promise<readonly RestoreInProgress[]>;
  readonly write: WriteReferrer;
  readonly onProgress: (progress: Progress) => void;
  readonly now: () => Date;
  readonly log: Log;
}

interface Task extends DeletionActionsOptions {
  readonly claim: UniqueClaim;
  readonly record: DeletionRecord;
  readonly seen: Map<string, number>;
  readonly signal: AbortSignal;
}

/** From a live read. @throws if the API server gives no definite answer */
async function targetState(task: Task): Promise<'present' | 'terminating' | 'recreated' | 'gone'> {
  const { world, record, signal } = task;
  const live = await world.confirm(record.target, signal);
  if (live === undefined) return 'gone';
  if (live.metadata?.uid !== record.uid) return 'recreated';
  return isJsonObject(live) && hasDeletionTimestamp(live) ? 'terminating' : 'present';
}

function report(
  { claim, record, onProgress }: Task,
  progress: Partial<Progress> & Pick<Progress, 'state'>,
): void {
  const { name = '' } = claim.metadata;
  onProgress({ claim: name, record, message: '', done: 0, stuck: [], ...progress });
}

type WriteOutcome =
  | { readonly kind: 'deleted' | 'changed' }
  | { readonly kind: 'patched'; readonly object: KubeObject }
  | { readonly kind: 'refused'; readonly message: string };

/** @throws if the outcome is unknown */
type WriteReferrer = (
  ref: ObjectRef,
  object: KubeObject,
  plan: Extract<ReferrerPlan, { kind: 'delete' | 'patch' }>,
  policy: CompiledPolicy,
  signal: AbortSignal,
) => Promise<WriteOutcome>;

const FIELD_MANAGER = 'gatehouse-references';

export function createWriteReferrer(
  client: Pick<KubeClient, 'delete' | 'patchJson' | 'getMetadata'>,
  discovery: Pick<Discovery, 'resolve'>,
): WriteReferrer {
  return async (ref, object, plan, policy, signal) => {
    const kind = await served(discovery, ref, signal);
    try {
      if (plan.kind === 'delete') {
        const { uid, resourceVersion } = plan;
        const preconditions = { uid, resourceVersion };
        await client.delete(kind, ref, { preconditions, propagationPolicy: 'Background', signal });
        return { kind: 'deleted' };
      }
      const versioned = { ...kind, version: versionAmong(policy.match.apiVersions, kind.version) };
      const options = { fieldManager: FIELD_MANAGER, signal };
      const patched = await client.patchJson<KubeObject>(versioned, ref, plan.operations, options);
      return { kind: 'patched', object: patched };
    } catch (error) {
      if (isConflict(error) || isNotFound(error)) return { kind: 'changed' };
      if (!(error instanceof ApiError) || (error.code !== 403 && error.code !== 422)) throw error;
      // 422 is a failed `test`, or a value that the API server rejects.
      const live = error.code === 422 ? await client.getMetadata(kind, ref, { signal }) : object;
      const isCurrent = live?.metadata?.resourceVersion === object.metadata?.resourceVersion;
      return isCurrent ? { kind: 'refused', message: error.message } : { kind: 'changed' };
    }
  };
}

/** Deletes or changes the objects that name a deleted target. */
import type { CompiledPolicy, CompiledReference } from '../../admission/policy/compiled-policy.ts';
import { exemptionOf } from '../../admission/policy/exceptions/exceptions.ts';
import { isGovernedNow } from '../../admission/policy/match/object-scope.ts';
import { describeRef } from '../../admission/policy/object-ref.ts';
import { actingReferences } from '../../admission/policy/references/deletion-record.ts';
import { planReferrer, type ReferrerPlan } from '../../admission/policy/references/plan-referrer.ts';
import { storeDeletionRecords } from '../../admission/policy/references/record-deletion.ts';
import type { World } from '../../admission/policy/world.ts';
import { messageOf } from '../../json/error-message.ts';
import { isJsonObject } from '../../json/json.ts';
import type { KubeObject, ObjectRef } from '../../json/kube-object.ts';
import { mapConcurrent } from '../../json/map-concurrent.ts';
import { NotLeaderError } from '../../kube/lease/fence.ts';
import { report, targetState, type Stuck, type Task } from './deletion-task.ts';

/** What became of one object that may name the target. */
export type Outcome =
  | { readonly kind: 'done' }
  /** It needs nothing. */
  | { readonly kind: 'left' }
  /** It has changed in the meantime. */
  | { readonly kind: 'again' }
  | ({ readonly kind: 'stuck' } & Stuck);

/** Referrers between two checks that the target is still gone. */
const AT_ONCE = 8;
/** A pass that takes longer reports how far it is, in milliseconds. */
const REPORT_MS = 10_000;

/** Stops as soon as the target exists again or a restore begins; the next pass says why. */
export async function actOn(
  referrers: readonly ObjectRef[],
  task: Task,
  policy: CompiledPolicy,
  reference: CompiledReference,
): Promise<readonly Outcome[]> {
  if (referrers.length === 0) return [];
  const { world, signal, restoreInProgress, now } = task;
  const grants = await world.readGrants?.(undefined, signal);
  const outcomes: Outcome[] = [];
  let reportedAt = now().getTime();
  for (let at = 0; at < referrers.length; at += AT_ONCE) {
    const found = await mapConcurrent(referrers.slice(at, at + AT_ONCE), AT_ONCE, (ref) =>
      orStuck(ref, signal, () => findWork(ref, task, policy, reference, grants)),
    );
    // After the objects are read: each write holds for a version that named the target while that was gone.
    if ((await restoreInProgress(signal)) !== undefined) return [...outcomes, { kind: 'again' }];
    if ((await targetState(task)) !== 'gone') return [...outcomes, { kind: 'again' }];
    const act = async (one: Work | Outcome): Promise<Outcome> =>
      'plan' in one ? await orStuck(one.ref, signal, () => write(one, task, policy, reference)) : one;
    outcomes.push(...(await mapConcurrent(found, AT_ONCE, act)));
    if (now().getTime() - reportedAt < REPORT_MS) continue;
    reportedAt = now().getTime();
    report(task, { state: 'working', message: `${outcomes.length} of ${referrers.length} objects are done` });
  }
  return outcomes;
}

/** One object that cannot be read or changed must not keep the others. */
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

type GrantsRead = Awaited<ReturnType<NonNullable<World['readGrants']>>> | undefined;

/** One version of an object, and what to do with it. */
interface Work {
  readonly ref: ObjectRef;
  readonly object: KubeObject;
  readonly plan: Exclude<ReferrerPlan, { kind: 'leave' }>;
}

async function findWork(
  ref: ObjectRef,
  task: Task,
  policy: CompiledPolicy,
  reference: CompiledReference,
  grants: GrantsRead,
): Promise<Work | Outcome> {
  const { world, signal, record } = task;
  const object = await world.read(ref, signal, policy.match.apiVersions);
  const plan = planReferrer(record, reference, ref, object);
  if (plan.kind === 'leave' || object === undefined) return LEFT;
  if (isExempt(policy, reference, ref, object, grants, task)) return LEFT;
  return (await isGovernedNow(policy, object, world, signal)) ? { ref, object, plan } : LEFT;
}

async function write(
  { ref, object, plan }: Work,
  task: Task,
  policy: CompiledPolicy,
  reference: CompiledReference,
): Promise<Outcome> {
  const stuck = (message: string): Outcome => ({
    kind: 'stuck',
    object,
    message: `${describeRef(ref)}: ${message}`,
  });
  if (plan.kind === 'blocked') return stuck(plan.message);
  if (plan.kind === 'delete') await recordNextLevel(ref, plan.uid, task);
  const written = await task.write(ref, object, plan, policy, task.signal);
  if (written.kind === 'refused') return stuck(written.message);
  // A default of a policy, or another webhook, can write the name again with each change.
  const isBack =
    written.kind === 'patched' && planReferrer(task.record, reference, ref, written.object).kind !== 'leave';
  if (isBack) return stuck('something writes the name of the deleted object back');
  return written.kind === 'changed' ? { kind: 'again' } : { kind: 'done' };
}

const LEFT: Outcome = { kind: 'left' };

/** Exempt objects may lose their target. */
function isExempt(
  policy: CompiledPolicy,
  reference: CompiledReference,
  { group, resource, namespace, name }: ObjectRef,
  object: KubeObject,
  grants: GrantsRead,
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

/** Records an admitted deletion of a target for the leader, which then acts on the referencing objects. */
import type { UniqueClaim } from '../../../api/unique-claim.ts';
import { groupResourceName, type ObjectRef } from '../../../json/kube-object.ts';
import { denied, FORBIDDEN, type Decision } from '../../review/decision.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import type { CompiledPolicy, DeleteAction } from '../compiled-policy.ts';
import { describeRef } from '../object-ref.ts';
import { OutOfReachError, type AdmissionContext, type ClaimStore } from '../world.ts';
import {
  actingReferences,
  newDeletionRecord,
  readDeletionRecord,
  readmitted,
  type Prove,
} from './deletion-record.ts';

/** For each policy and deleted target. */
const MOST_REFERRERS = 10_000;

type Allowed = Extract<Decision, { kind: 'allow' }>;

/** Adds a warning that counts the referencing objects, or refuses if they are too many or the record cannot be stored. */
export async function recordDeletion(
  request: AdmissionRequest,
  target: ObjectRef,
  policies: readonly CompiledPolicy[],
  context: AdmissionContext,
  allowed: Allowed,
): Promise<Decision> {
  const { world, signal, now } = context;
  const { claims, prove, governed } = world;
  const acting = policies.filter((policy) => actingReferences(policy, target).length > 0);
  if (acting.length === 0 || prove === undefined) return allowed;
  const warnings: string[] = [];
  for (const policy of acting) {
    const referrers = governed.referrers(target, [policy]);
    if (referrers === undefined)
      return undecided([policy], target, 'the governed objects are not listed yet');
    if (referrers.length > MOST_REFERRERS) return tooMany(policy, target, referrers.length);
    if (referrers.length > 0) warnings.push(...warningsOf(policy, target, referrers));
  }
  const answer = { ...allowed, warnings: [...allowed.warnings, ...warnings] };
  if (request.dryRun) return answer;
  try {
    // A forged review must not record a deletion of an object that never existed.
    const uid = (await world.confirm(target, signal))?.metadata?.uid;
    if (uid === undefined) return answer;
    for (const policy of acting)
      await storeDeletionRecords(policy, target, uid, 0, { claims, prove }, now, signal);
  } catch (cause) {
    // No object can reference a target that Gatehouse does not read.
    return cause instanceof OutOfReachError ? answer : undecided(acting, target, cause);
  }
  return answer;
}

/** @throws if a record cannot be stored: the deletion must then not happen */
export async function storeDeletionRecords(
  policy: CompiledPolicy,
  target: ObjectRef,
  uid: string,
  depth: number,
  { claims, prove }: { readonly claims: ClaimStore; readonly prove: Prove },
  now: number,
  signal: AbortSignal,
): Promise<void> {
  for (const { name: reference, deleteAction: action } of actingReferences(policy, target)) {
    const record = newDeletionRecord(
      { policy: policy.name, reference, action, target, uid, depth },
      now,
      prove,
    );
    if (record === undefined) throw new Error('the key for records of deletions has not been read yet');
    if ((await claims.create(record, signal)) === 'taken') await renew(record, { claims, prove }, signal);
  }
}

async function renew(
  record: UniqueClaim,
  { claims, prove }: { readonly claims: ClaimStore; readonly prove: Prove },
  signal: AbortSignal,
): Promise<void> {
  const { name = '' } = record.metadata;
  const earlier = await claims.read(name, signal);
  // The leader deletes a forged record.
  const isOurs = earlier !== undefined && readDeletionRecord(earlier, prove) !== undefined;
  const next = isOurs ? readmitted(earlier, record, prove) : undefined;
  const renewed = next && (await claims.replace(next, signal));
  if (renewed === undefined || renewed === 'changed')
    throw new Error(`the record ${name} of an earlier deletion is changing`);
}

const VERBS: Readonly<Record<DeleteAction, string>> = {
  Cascade: 'delete',
  SetNull: 'remove the name from',
  SetDefault: 'write another name into',
};

function warningsOf(
  policy: CompiledPolicy,
  target: ObjectRef,
  referrers: readonly ObjectRef[],
): readonly string[] {
  const actions = new Set(actingReferences(policy, target).map(({ deleteAction }) => deleteAction));
  const verbs = [...actions].map((action) => VERBS[action]).join(' or ');
  const counts = [...Map.groupBy(referrers, groupResourceName)].map(([kind, all]) => `${all.length} ${kind}`);
  return [
    `Gatehouse will ${verbs} ${counts.join(' and ')} that refer${referrers.length === 1 ? 's' : ''} to ${describeRef(target)} (policy ${policy.name})`,
  ];
}

function tooMany(policy: CompiledPolicy, target: ObjectRef, count: number): Decision {
  return denied(
    FORBIDDEN,
    `${describeRef(target)} is referenced by ${count} objects, and Gatehouse deletes or changes at most ${MOST_REFERRERS} after one deletion: delete or change some of them first (policy ${policy.name})`,
  );
}

const undecided = (policies: readonly CompiledPolicy[], target: ObjectRef, cause: unknown): Decision => ({
  kind: 'retry',
  message: `could not record that ${describeRef(target)} is deleted (policy ${policies[0]?.name ?? ''}): try again`,
  cause,
});

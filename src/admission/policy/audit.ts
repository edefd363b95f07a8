import { refOf, splitApiVersion, type GroupResource, type KubeObject } from '../../json/kube-object.ts';
import { missingTarget, createTargetConfirmer } from './references/check-references.ts';
import type { Violation } from './violation.ts';
import type { CompiledPolicy } from './compiled-policy.ts';
import { createCelBudget } from '../../cel/values/values.ts';
import { judge } from './judge.ts';
import { isJsonObject } from '../../json/json.ts';
import type { AdmissionRequest } from '../review/request.ts';
import type { AuditContext } from './world.ts';
import { withoutAwaiting, isAboutState } from './rules/rules.ts';
import { exemptionOfStored, NO_USER } from './exceptions/exceptions.ts';
import { obstacleViolation } from './unique/check-unique.ts';
import { isHeldBy } from './unique/claim-state.ts';
import { holdsNow } from './match/object-scope.ts';
import { targetKey } from './object-ref.ts';
import { heldKeys } from './unique/unique-key.ts';

export type AuditResult =
  | { readonly kind: 'judged'; readonly violations: readonly Violation[] }
  | { readonly kind: 'unknown'; readonly cause: unknown };

/** The policy without the checks that need a request: immutable fields, and rules about users or old objects. */
export function forAudit(policy: CompiledPolicy): CompiledPolicy {
  return {
    ...policy,
    immutable: [],
    warnings: [],
    auditAnnotations: [],
    rules: policy.rules.filter(isAboutState),
    allowsExisting: false,
  };
}

export const hasAudit = ({ audit, references, unique, rules, schema }: CompiledPolicy): boolean =>
  audit && (references.length > 0 || unique.length > 0 || rules.length > 0 || schema !== undefined);

/** Judges the object as if a user created it now. @param policy of {@link forAudit} */
export async function auditObject(
  policy: CompiledPolicy,
  resource: GroupResource,
  object: KubeObject,
  context: AuditContext,
): Promise<AuditResult> {
  const { world, signal, turns } = context;
  await turns?.next();
  const judging = { ...context, budget: createCelBudget() };
  const { violations, unresolved, unreadable } = await judge(policy, asCreated(resource, object), judging);
  if (unreadable !== undefined) return { kind: 'unknown', cause: unreadable };
  try {
    const shared = await auditUnique(policy, resource, object, context);
    const targets = await createTargetConfirmer(world, signal)(unresolved);
    if (targets.unknown.length > 0) return { kind: 'unknown', cause: targets.cause };
    const { missing, unread } = targets;
    const others = withoutAwaiting(violations, [...missing, ...unread]);
    return { kind: 'judged', violations: [...others, ...shared, ...missing.map(missingTarget)] };
  } catch (cause) {
    return { kind: 'unknown', cause };
  }
}

export function asCreated({ group, resource }: GroupResource, object: KubeObject): AdmissionRequest {
  const { apiVersion = '', kind = '', metadata } = object;
  const { version } = splitApiVersion(apiVersion);
  const gvk = { group, version, kind };
  const gvr = { group, version, resource };
  const asJson: unknown = object;
  return {
    uid: metadata?.uid ?? '',
    kind: gvk,
    resource: gvr,
    subResource: '',
    requestKind: gvk,
    requestResource: gvr,
    name: metadata?.name,
    namespace: metadata?.namespace,
    operation: 'CREATE',
    userInfo: NO_USER,
    object: isJsonObject(asJson) ? asJson : undefined,
    oldObject: undefined,
    dryRun: true,
    options: undefined,
  };
}

/**
 * Unique values that another object holds and has claimed, by a live read.
 * @throws if a live read fails, or before the stores are synced
 */
async function auditUnique(
  policy: CompiledPolicy,
  resource: GroupResource,
  object: KubeObject,
  context: AuditContext,
): Promise<readonly Violation[]> {
  const { world, signal, now } = context;
  if (policy.unique.length === 0 || !isJsonObject(object)) return [];
  const self = refOf(resource, object);
  const { covers } = exemptionOfStored(policy, resource, object, now);
  const violations: Violation[] = [];
  for (const key of heldKeys(policy, object, self)) {
    const known = world.governed.holders(key.claim, policy);
    if (known === undefined) throw new Error('the governed objects have not been listed yet');
    const others = known.filter((ref) => targetKey(ref) !== targetKey(self));
    if (others.length === 0 || covers('unique', key.rule.name)) continue;
    const claim = await world.claims.read(key.claim, signal);
    if (claim === undefined || isHeldBy(claim, self)) continue;
    const holder = others.find((ref) => isHeldBy(claim, ref));
    if (holder === undefined) continue;
    const live = await world.read(holder, signal, policy.match.apiVersions);
    if (!(await holdsNow(policy, key.claim, holder, live, world, signal))) continue;
    const wanted = { ...key, policy, self };
    const violation = obstacleViolation({ kind: 'held', key: wanted, holder, beingDeleted: false });
    if (violation !== undefined) violations.push(violation);
  }
  return violations;
}

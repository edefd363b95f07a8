import type { GroupResource, KubeObject, ObjectRef } from '../../json/kube-object.ts';
import { exemptionOf } from './exceptions/exemption.ts';
import { obstacleViolation } from './unique/check-unique.ts';
import type { Violation } from './violation.ts';
import { isHeldBy } from './unique/claim-state.ts';
import type { CompiledPolicy } from './compiled-policy.ts';
import { holdsNow } from './match/governed-now.ts';
import { isJsonObject } from '../../json/json.ts';
import { targetKey } from './references/read-references.ts';
import { heldKeys } from './unique/unique-key.ts';
import type { Circumstances } from './world.ts';

/**
 * The values of a stored object that another one holds too, and has the claim to. Of objects that share a value all but one are
 * violations. The stores say who might; each is read live.
 *
 * @throws when the API server does not say, and while the stores are not filled
 */
export async function auditUnique(
  policy: CompiledPolicy,
  { group, resource }: GroupResource,
  object: KubeObject,
  circumstances: Circumstances,
): Promise<readonly Violation[]> {
  const { world, signal } = circumstances;
  const { name = '', namespace } = object.metadata ?? {};
  if (policy.unique.length === 0 || !isJsonObject(object)) return [];
  const self: ObjectRef = { group, resource, namespace, name };
  const violations: Violation[] = [];
  for (const key of heldKeys(policy, object, self)) {
    const known = world.governed === undefined ? [] : world.governed.holders(key.claim, policy);
    if (known === undefined) throw new Error('what the policy governs has not been listed yet');
    const others = known.filter((ref) => targetKey(ref) !== targetKey(self));
    if (others.length === 0 || isSpared(policy, key.rule.name, object, self, circumstances)) continue;
    const claim = await world.claims?.read(key.claim, signal);
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

/** Exceptions for users do not hold for what is stored. */
function isSpared(
  policy: CompiledPolicy,
  rule: string,
  object: NonNullable<Parameters<typeof exemptionOf>[1]['object']>,
  { name, namespace }: ObjectRef,
  { now }: Circumstances,
): boolean {
  const userInfo = { username: '', uid: '', groups: [], extra: {} };
  const stored = { userInfo, namespace, name, object, oldObject: undefined };
  return exemptionOf(policy, stored, now).spares('unique', rule);
}

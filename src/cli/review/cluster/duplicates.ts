/** Finds existing objects that share a unique value, with or without claims: the policy may not be installed yet. */
import { exemptionOf } from '../../../admission/policy/exceptions/exceptions.ts';
import { obstacleViolation } from '../../../admission/policy/unique/check-unique.ts';
import type { CompiledPolicy } from '../../../admission/policy/compile.ts';
import { isJsonObject } from '../../../json/json.ts';
import { pick } from '../../../json/objects.ts';
import { heldKeys, type HeldKey } from '../../../admission/policy/unique/unique-key.ts';
import type { GroupResource, KubeObject, ObjectRef } from '../../../json/kube-object.ts';
import type { Violator } from '../../../runtime/policies/audit-scan.ts';

interface Holder extends Pick<Violator, 'resource' | 'object'> {
  readonly self: ObjectRef;
  readonly key: HeldKey;
  /** Whether an exception allows the duplicate. */
  readonly isExempt: boolean;
}

export function collectDuplicates(policy: CompiledPolicy, now: Date) {
  const all: Holder[] = [];
  return {
    add: (resource: GroupResource, object: KubeObject): void => {
      const json: unknown = object;
      const { name = '', namespace } = object.metadata ?? {};
      if (!isJsonObject(json)) return;
      const self = { ...resource, namespace, name };
      const request = { userInfo: NO_USER, namespace, name, object: json, oldObject: undefined };
      const { covers } = exemptionOf(policy, request, now.getTime());
      // Only the identity: all objects of a cluster would not fit into memory.
      const identity = {
        ...pick(object, 'apiVersion', 'kind'),
        metadata: pick(object.metadata ?? {}, 'name', 'namespace'),
      };
      for (const key of heldKeys(policy, json, self))
        all.push({ resource, object: identity, self, key, isExempt: covers('unique', key.rule.name) });
    },
    /** Each object that shares values with others, with one entry per value. */
    violators: (): readonly Violator[] =>
      [...Map.groupBy(all, ({ key }) => key.claim).values()].flatMap((holders) =>
        holders.flatMap((holder, index) => violatorOf(policy, holder, holders[index === 0 ? 1 : 0])),
      ),
  };
}

/** Exceptions for users do not apply to existing objects. */
const NO_USER = { username: '', uid: '', groups: [], extra: {} };

function violatorOf(
  policy: CompiledPolicy,
  { resource, object, self, key, isExempt }: Holder,
  other: Holder | undefined,
): readonly Violator[] {
  if (other === undefined || isExempt) return [];
  const wanted = { ...key, policy, self };
  const violation = obstacleViolation({ kind: 'held', key: wanted, holder: other.self, beingDeleted: false });
  return violation === undefined ? [] : [{ resource, object, violations: [violation] }];
}

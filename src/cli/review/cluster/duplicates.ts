/** Finds existing objects that share a unique value, with or without claims: the policy may not be installed yet. */
import { exemptionOfStored } from '../../../admission/policy/exceptions/exceptions.ts';
import { obstacleViolation } from '../../../admission/policy/unique/check-unique.ts';
import type { CompiledPolicy } from '../../../admission/policy/compile.ts';
import { isJsonObject } from '../../../json/json.ts';
import { pick } from '../../../json/objects.ts';
import { heldKeys, type HeldKey } from '../../../admission/policy/unique/unique-key.ts';
import { refOf, type GroupResource, type KubeObject, type ObjectRef } from '../../../json/kube-object.ts';
import type { Violator } from '../../../runtime/policies/audit-scan.ts';

interface Holder extends Pick<Violator, 'resource' | 'object'> {
  readonly self: ObjectRef;
  readonly key: HeldKey;
}

/** Exempt objects claim no values, so they do not count. */
export function collectDuplicates(policy: CompiledPolicy, now: Date) {
  const all: Holder[] = [];
  return {
    add: (resource: GroupResource, object: KubeObject): void => {
      const json: unknown = object;
      if (!isJsonObject(json)) return;
      const self = refOf(resource, object);
      const { covers } = exemptionOfStored(policy, self, object, now.getTime());
      // Only the identity: all objects of a cluster would not fit into memory.
      const identity = {
        ...pick(object, 'apiVersion', 'kind'),
        metadata: pick(object.metadata ?? {}, 'name', 'namespace'),
      };
      for (const key of heldKeys(policy, json, self))
        if (!covers('unique', key.rule.name)) all.push({ resource, object: identity, self, key });
    },
    /** Each object that shares values with others, with one entry per value. */
    violators: (): readonly Violator[] =>
      [...Map.groupBy(all, ({ key }) => key.claim).values()].flatMap((holders) =>
        holders.flatMap((holder, index) => violatorOf(policy, holder, holders[index === 0 ? 1 : 0])),
      ),
  };
}

function violatorOf(
  policy: CompiledPolicy,
  { resource, object, self, key }: Holder,
  other: Holder | undefined,
): readonly Violator[] {
  if (other === undefined) return [];
  const wanted = { ...key, policy, self };
  const violation = obstacleViolation({ kind: 'held', key: wanted, holder: other.self, beingDeleted: false });
  return violation === undefined ? [] : [{ resource, object, violations: [violation] }];
}

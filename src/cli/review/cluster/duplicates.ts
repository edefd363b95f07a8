/** Finds existing objects that share a unique value, with or without claims: the policy may not be installed yet. */
import { exemptionOf } from '../../../admission/policy/exceptions/exceptions.ts';
import { obstacleViolation } from '../../../admission/policy/unique/check-unique.ts';
import type { CompiledPolicy } from '../../../admission/policy/compile.ts';
import { isJsonObject } from '../../../json/json.ts';
import { heldKeys, type HeldKey } from '../../../admission/policy/unique/unique-key.ts';
import type { GroupResource, KubeObject, ObjectRef } from '../../../json/kube-object.ts';
import type { Culprit } from '../../../runtime/policies/audit-scan.ts';

export interface Duplicates {
  readonly add: (resource: GroupResource, object: KubeObject) => void;
  /** Each object that shares values with others, with one entry per value. */
  readonly culprits: () => readonly Culprit[];
}

interface Holder {
  readonly resource: GroupResource;
  readonly object: KubeObject;
  readonly self: ObjectRef;
  readonly key: HeldKey;
  /** Whether an exception allows the duplicate. */
  readonly isExempt: boolean;
}

export function collectDuplicates(policy: CompiledPolicy, now: Date): Duplicates {
  const byClaim = new Map<string, Holder[]>();
  return {
    add: (resource, object) => {
      const json: unknown = object;
      const { name = '', namespace, deletionTimestamp } = object.metadata ?? {};
      if (!isJsonObject(json) || deletionTimestamp !== undefined) return;
      const self = { ...resource, namespace, name };
      const request = { userInfo: NO_USER, namespace, name, object: json, oldObject: undefined };
      const { spares } = exemptionOf(policy, request, now.getTime());
      for (const key of heldKeys(policy, json, self)) {
        const isExempt = spares('unique', key.rule.name);
        const holder = { resource, object: identityOf(object), self, key, isExempt };
        const others = byClaim.get(key.claim);
        if (others === undefined) byClaim.set(key.claim, [holder]);
        else others.push(holder);
      }
    },
    culprits: () =>
      [...byClaim.values()].flatMap((holders) =>
        holders.length < 2
          ? []
          : holders.flatMap((holder, index) => culpritOf(policy, holder, holders[index === 0 ? 1 : 0])),
      ),
  };
}

/** Exceptions for users do not apply to existing objects. */
const NO_USER = { username: '', uid: '', groups: [], extra: {} };

/** Keeps only the identity: all objects of a cluster would not fit into memory. */
function identityOf({ apiVersion, kind, metadata }: KubeObject): KubeObject {
  const { name, namespace } = metadata ?? {};
  return {
    ...(apiVersion === undefined ? {} : { apiVersion }),
    ...(kind === undefined ? {} : { kind }),
    metadata: { ...(name === undefined ? {} : { name }), ...(namespace === undefined ? {} : { namespace }) },
  };
}

function culpritOf(
  policy: CompiledPolicy,
  { resource, object, self, key, isExempt }: Holder,
  other: Holder | undefined,
): readonly Culprit[] {
  if (other === undefined || isExempt) return [];
  const wanted = { ...key, policy, self };
  const violation = obstacleViolation({ kind: 'held', key: wanted, holder: other.self, beingDeleted: false });
  return violation === undefined ? [] : [{ resource, object, violations: [violation] }];
}

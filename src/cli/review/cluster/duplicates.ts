/** Unique values that several stored objects hold, whether or not they have been claimed: the policy may not be in force yet. */
import { exemptionOf } from '../../../admission/policy/exceptions/exceptions.ts';
import { obstacleViolation } from '../../../admission/policy/unique/check-unique.ts';
import type { CompiledPolicy } from '../../../admission/policy/compile.ts';
import { isJsonObject } from '../../../json/json.ts';
import { heldKeys, type HeldKey } from '../../../admission/policy/unique/unique-key.ts';
import type { GroupResource, KubeObject, ObjectRef } from '../../../json/kube-object.ts';
import type { Culprit } from '../../../runtime/policies/audit-scan.ts';

export interface Duplicates {
  readonly see: (resource: GroupResource, object: KubeObject) => void;
  /** Every object that shares a value with another one, with all values that it shares. */
  readonly culprits: () => readonly Culprit[];
}

interface Holder {
  readonly resource: GroupResource;
  readonly object: KubeObject;
  readonly self: ObjectRef;
  readonly key: HeldKey;
  /** Whether an exception lets it share the value. */
  readonly isSpared: boolean;
}

export function watchForDuplicates(policy: CompiledPolicy, now: Date): Duplicates {
  const byClaim = new Map<string, Holder[]>();
  return {
    see: (resource, object) => {
      const json: unknown = object;
      const { name = '', namespace, deletionTimestamp } = object.metadata ?? {};
      if (!isJsonObject(json) || deletionTimestamp !== undefined) return;
      const self = { ...resource, namespace, name };
      const request = { userInfo: NOBODY, namespace, name, object: json, oldObject: undefined };
      const { spares } = exemptionOf(policy, request, now.getTime());
      for (const key of heldKeys(policy, json, self)) {
        const isSpared = spares('unique', key.rule.name);
        const holder = { resource, object: identityOf(object), self, key, isSpared };
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

/** Exceptions for users are not meant for what is stored. */
const NOBODY = { username: '', uid: '', groups: [], extra: {} };

/** All of the objects of a cluster would be too much to keep. */
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
  { resource, object, self, key, isSpared }: Holder,
  other: Holder | undefined,
): readonly Culprit[] {
  if (other === undefined || isSpared) return [];
  const wanted = { ...key, policy, self };
  const violation = obstacleViolation({ kind: 'held', key: wanted, holder: other.self, beingDeleted: false });
  return violation === undefined ? [] : [{ resource, object, violations: [violation] }];
}

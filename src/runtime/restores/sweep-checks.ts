/** The checks of a sweep besides references: deferred checks, missing defaults, duplicate unique values. */
import { asCreated, auditObject, forAudit, hasAudit } from '../../admission/policy/audit.ts';
import { exemptionOfStored } from '../../admission/policy/exceptions/exceptions.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { isJsonObject } from '../../json/json.ts';
import { mapConcurrent } from '../../json/map-concurrent.ts';
import { unescapePart } from '../../json/json-patch.ts';
import { mutate } from '../../admission/policy/mutate.ts';
import { heldKeys, type HeldKey } from '../../admission/policy/unique/unique-key.ts';
import type { RequestWorld } from '../../admission/policy/world.ts';
import {
  objectKey,
  type GroupResource,
  type KubeObject,
  type ObjectMeta,
  type ObjectRef,
} from '../../json/kube-object.ts';
import { pick } from '../../json/objects.ts';
import type { Violation } from '../../api/restore-window.ts';
import type { SweptViolation } from '../../restore/attribution.ts';
import { subjectOf } from '../../restore/report.ts';
import { backgroundTurns } from '../../server/limits/turns.ts';
import type { StoredObjects } from '../policies/stored-objects.ts';

/** Live reads of a sweep at a time. With 10 ms each, 100,000 suspects need some two minutes. */
export const CONCURRENT_READS = 16;

/** A stored object, and a policy that governs it. */
export interface SweptObject {
  readonly policy: CompiledPolicy;
  readonly resource: GroupResource;
  readonly object: KubeObject;
}

/** Violations of deferred checks, without references. @throws when a check cannot be decided */
export async function deferredViolations(
  one: SweptObject,
  { world, now }: { readonly world: RequestWorld; readonly now: () => Date },
  signal: AbortSignal,
): Promise<readonly Violation[]> {
  const { policy, resource, object } = one;
  const { schema, rules, references } = policy.restore.defers;
  const audited = forAudit(policy);
  // A rule that depends on a dangling reference is deferred together with the reference.
  const swept = audited.rules.filter((rule) => rules || (references && rule.expression.reads.refs.size > 0));
  if (!schema && swept.length === 0) return [];
  const deferred = { ...audited, ...(schema ? {} : { schema: undefined }), rules: swept };
  const circumstances = { world, signal, now: now().getTime(), turns: backgroundTurns };
  const result = await auditObject({ ...deferred, unique: [] }, resource, object, circumstances);
  if (result.kind === 'unknown') throw result.cause;
  return result.violations
    .filter(({ deferrable }) => deferrable === 'schema' || deferrable === 'rules')
    .map(({ field, message, check, deferrable }) => ({
      ...about(one, field),
      check: check ?? deferrable ?? '',
      reason: 'CheckFailed' as const,
      message,
    }));
}

/**
 * Defaults that the object lacks because it was written while Gatehouse was down. Only for objects created since the
 * restore began: older ones may be older than the policy.
 */
export async function missingDefaults(
  one: SweptObject,
  since: Date,
  { world }: { readonly world: RequestWorld },
  signal: AbortSignal,
): Promise<readonly Violation[]> {
  const { policy, resource, object } = one;
  if (policy.defaults.length === 0 || !isCreatedSince(object.metadata ?? {}, since)) return [];
  const filling = { ...policy, mutations: [], references: [], preservesOwners: false };
  const circumstances = { world, signal, turns: backgroundTurns };
  const decision = await mutate(asCreated(resource, object), [filling], circumstances);
  if (decision.kind === 'retry') throw new Error(decision.message, { cause: decision.cause });
  if (decision.kind === 'deny') return [];
  return decision.patch.map(({ path }) => ({
    ...about(one, toField(path)),
    reason: 'DefaultWouldChange' as const,
    message: 'a default is missing: update the object once, and Gatehouse sets it',
  }));
}

/** creationTimestamp has whole seconds. */
export const isCreatedSince = (
  { creationTimestamp = '' }: { readonly creationTimestamp?: string | undefined },
  since: Date,
): boolean => Date.parse(creationTimestamp) >= since.getTime() - 1_000;

/** Each manager's last write. Controllers write the status all the time, and no restore. */
interface ManagedMeta extends ObjectMeta {
  readonly managedFields?: readonly { readonly time?: string; readonly subresource?: string }[];
}

const ONLY_SWEPT: readonly Violation['reason'][] = ['DefaultWouldChange', 'CrossesNamespaceMapping'];

export const swept = (
  { policy, resource, object }: SweptObject,
  violations: readonly Violation[],
): readonly SweptViolation[] => {
  const { managedFields = [], ...metadata }: ManagedMeta = object.metadata ?? {};
  return violations.map((violation) => ({
    violation,
    resource,
    written: {
      ...pick(metadata, 'creationTimestamp', 'labels', 'namespace'),
      changedAt: managedFields.flatMap(({ time, subresource = '' }) =>
        time === undefined || subresource !== '' ? [] : [time],
      ),
    },
    isAudited: hasAudit(policy) && !ONLY_SWEPT.includes(violation.reason),
  }));
};

interface Holder {
  readonly policy: CompiledPolicy;
  readonly self: ObjectRef;
  readonly key: HeldKey;
}

/** Collects the holders of unique values, then returns the duplicates, each confirmed by a live read. Exempt objects claim no values. */
export function createDuplicates({ read, now }: Pick<StoredObjects, 'read'> & { readonly now: () => Date }) {
  const holders: Holder[] = [];
  const keysOf = (policy: CompiledPolicy, object: KubeObject, self: ObjectRef): readonly HeldKey[] => {
    if (policy.unique.length === 0 || !isJsonObject(object)) return [];
    const { covers } = exemptionOfStored(policy, self, object, now().getTime());
    return heldKeys(policy, object, self).filter(({ rule }) => !covers('unique', rule.name));
  };
  return {
    see: (policy: CompiledPolicy, resource: GroupResource, object: KubeObject): void => {
      const self = refOf(resource, object);
      holders.push(...keysOf(policy, object, self).map((key) => ({ policy, self, key })));
    },
    confirmed: async (signal: AbortSignal): Promise<readonly SweptViolation[]> => {
      const claimed = Map.groupBy(holders, ({ key }) => key.claim); // the name of a claim contains that of its policy
      const suspects = [...claimed.values()].filter(({ length }) => length > 1).flat();
      const live = await mapConcurrent(suspects, CONCURRENT_READS, async (holder) => {
        const object = await read(holder.self, signal);
        if (object === undefined) return [];
        const keys = keysOf(holder.policy, object, holder.self);
        return keys.some(({ claim }) => claim === holder.key.claim) ? [{ object, holder }] : [];
      });
      const still = Map.groupBy(live.flat(), ({ holder }) => holder.key.claim);
      return [...still.values()]
        .filter(({ length }) => length > 1)
        .flatMap((same) =>
          same.flatMap(({ object, holder }) => {
            const { policy, self: resource } = holder;
            const objects = same.map((one) => one.object);
            return swept({ policy, resource, object }, [toDuplicate(object, holder, objects)]);
          }),
        );
    },
  };
}

function toDuplicate(object: KubeObject, { policy, key }: Holder, holders: readonly KubeObject[]): Violation {
  const [first = '', ...more] = holders
    .filter((holder) => holder !== object)
    .map(({ metadata = {} }) => objectKey(metadata));
  const others = more.length === 0 ? first : `${first} and ${more.length} more`;
  return {
    ...about({ policy, object }, key.field),
    check: key.rule.name,
    reason: 'Duplicate',
    message: `also held by ${others}, but only one object may hold it: change or delete the others`,
  };
}

/** Whether a copied object still names an object in its source namespace: backup tools do not rewrite references. */
export function crossesMapping(
  mapping: Readonly<Record<string, string>>,
  from: string | undefined,
  to: string | undefined,
): boolean {
  if (from === undefined || to === undefined || from === to) return false;
  const isCopy = Object.entries(mapping).some(([source, target]) => source !== target && target === from);
  return isCopy && Object.hasOwn(mapping, to) && mapping[to] !== to;
}

export function about(
  { policy, object }: Pick<SweptObject, 'policy' | 'object'>,
  field: string,
): Pick<Violation, 'policy' | 'object' | 'field'> {
  return { policy: policy.name, object: subjectOf(object), field };
}

export function refOf(resource: GroupResource, { metadata }: KubeObject): ObjectRef {
  return { ...resource, name: metadata?.name ?? '', namespace: metadata?.namespace };
}

/** `/spec/disks/0/tier` → `spec.disks[0].tier` */
const toField = (pointer: string): string =>
  unescapePart(
    pointer
      .slice(1)
      .replaceAll(/\/(\d+|-)(?=\/|$)/g, '[$1]')
      .replaceAll('/', '.'),
  );

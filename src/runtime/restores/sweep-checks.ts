/** The checks of a sweep: on one stored object, and for unique values that several objects have. */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { exemptionOfStored } from '../../admission/policy/exceptions/exceptions.ts';
import { type GroupResource, type KubeObject, objectKey, type ObjectRef } from '../../json/kube-object.ts';
import type { RequestWorld } from '../../admission/policy/world.ts';
import type { Violation } from '../../api/restore-window.ts';
import type { SweptViolation } from '../../restore/attribution.ts';
import { subjectOf } from '../../restore/report.ts';
import { type StoredKind, type StoredObjects, storedRef } from '../policies/stored-objects.ts';
import { asCreated, auditObject, forAudit, hasAudit } from '../../admission/policy/audit.ts';
import { unescapePart } from '../../json/json-patch.ts';
import { mutate } from '../../admission/policy/mutate.ts';
import { isEqual, isJsonObject, type JsonValue, listIn, objectIn, pick, textIn } from '../../json/json.ts';
import { backgroundTurns } from '../../server/limits/turns.ts';
import { mapConcurrent } from '../../json/map-concurrent.ts';
import { shorten } from '../../json/printable.ts';
import { type HeldKey, heldKeys } from '../../admission/policy/unique/unique-key.ts';

/** Live reads of a sweep at a time. With 10 ms each, 100,000 suspects need some two minutes. */
export const CONCURRENT_READS = 16;

export interface CheckSources extends Pick<StoredObjects, 'read'> {
  readonly world: RequestWorld;
  readonly now: () => Date;
}

export interface SweptObject {
  readonly policy: CompiledPolicy;
  readonly resource: StoredKind;
  readonly object: KubeObject;
}

/** @throws when a check cannot be decided */
export async function deferredViolations(
  one: SweptObject,
  { world, now }: CheckSources,
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
      message: shorten(message, 512),
    }));
}

/** Only for objects created since the restore began: older ones may be older than the policy. */
export async function missingDefaults(
  one: SweptObject,
  since: Date,
  { world }: CheckSources,
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

const ONLY_SWEPT: readonly Violation['reason'][] = ['DefaultWouldChange', 'CrossesNamespaceMapping'];

export const swept = (
  { policy, resource, object }: SweptObject,
  violations: readonly Violation[],
): readonly SweptViolation[] =>
  violations.map((violation) => ({
    violation,
    resource,
    written: writtenOf(object),
    isAudited: hasAudit(policy) && !ONLY_SWEPT.includes(violation.reason),
  }));

/** Each manager's last write. Writes of the status don't count, because restores don't write it. */
export function writtenOf(object: KubeObject): SweptViolation['written'] {
  const writes = listIn(object, 'metadata', 'managedFields').filter(
    (entry) => textIn(entry, 'subresource') === '' && textIn(entry, 'time') !== '',
  );
  const [labelledAt, changedAt] = [true, false].map((labels) =>
    writes.filter((entry) => ownsOnlyLabels(entry) === labels).map((entry) => textIn(entry, 'time')),
  );
  const { metadata = {} } = object;
  return {
    ...pick(metadata, 'creationTimestamp', 'labels', 'namespace'),
    changedAt: changedAt ?? [],
    labelledAt: labelledAt ?? [],
  };
}

const ownsOnlyLabels = (entry: JsonValue): boolean =>
  isEqual(Object.keys(objectIn(entry, 'fieldsV1')), ['f:metadata']) &&
  isEqual(Object.keys(objectIn(entry, 'fieldsV1', 'f:metadata')), ['f:labels']);

export function about(
  { policy, object }: Pick<SweptObject, 'policy' | 'object'>,
  field: string,
): Pick<Violation, 'policy' | 'object' | 'field'> {
  // A RestoreReport with hundreds of violations must fit into etcd.
  return { policy: policy.name, object: subjectOf(object), field: shorten(field, 256) };
}

/** `/spec/disks/0/tier` → `spec.disks[0].tier` */
const toField = (pointer: string): string =>
  unescapePart(
    pointer
      .slice(1)
      .replaceAll(/\/(\d+|-)(?=\/|$)/g, '[$1]')
      .replaceAll('/', '.'),
  );

interface Holder {
  readonly policy: CompiledPolicy;
  readonly self: ObjectRef;
  readonly key: HeldKey;
}

/** Exempt objects claim no values. */
export function createDuplicates({ read, now }: CheckSources) {
  const holders: Holder[] = [];
  const keysOf = (policy: CompiledPolicy, object: KubeObject, self: ObjectRef): readonly HeldKey[] => {
    if (policy.unique.length === 0 || !isJsonObject(object)) return [];
    const { covers } = exemptionOfStored(policy, self, object, now().getTime());
    return heldKeys(policy, object, self).filter(({ rule }) => !covers('unique', rule.name));
  };
  return {
    see: (policy: CompiledPolicy, resource: GroupResource, object: KubeObject): void => {
      const self = storedRef(resource, object);
      for (const key of keysOf(policy, object, self)) holders.push({ policy, self, key });
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
        .flatMap((same) => {
          const objects = same.map((one) => one.object);
          return same.flatMap(({ object, holder }) => {
            const { policy, self: resource } = holder;
            return swept({ policy, resource, object }, [toDuplicate(object, holder, objects)]);
          });
        });
    },
  };
}

function toDuplicate(object: KubeObject, { policy, key }: Holder, holders: readonly KubeObject[]): Violation {
  // Thousands of objects may hold the value: each of them reads only the first holders.
  const first = objectKey(holders.find((holder) => holder !== object)?.metadata ?? {});
  const others = holders.length === 2 ? first : `${first} and ${holders.length - 2} more`;
  return {
    ...about({ policy, object }, key.field),
    check: key.rule.name,
    reason: 'Duplicate',
    message: `also held by ${others}, but only one object may hold it: change or delete the others`,
  };
}

/** The scan after a restore: reads every governed object. Only a live read confirms a violation. */
import { isDeepStrictEqual } from 'node:util';

import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { exemptionOfStored } from '../../admission/policy/exceptions/exceptions.ts';
import { isInScope } from '../../admission/policy/match/object-scope.ts';
import { referencesOf, type FoundReference } from '../../admission/policy/references/read-references.ts';
import {
  groupResourceName,
  objectKey,
  type GroupResource,
  type KubeObject,
  type ObjectRef,
  type ObjectMeta,
} from '../../json/kube-object.ts';
import { mapConcurrent } from '../../json/map-concurrent.ts';
import { memoizeAsync } from '../../json/memoize-async.ts';
import type { RequestWorld } from '../../admission/policy/world.ts';
import type { Violation } from '../../api/restore-window.ts';
import { messageOf } from '../../json/error-message.ts';
import type { SweptViolation } from '../../restore/attribution.ts';
import { type SweepResult, subjectOf } from '../../restore/report.ts';
import { type StoredKind, type StoredObjects, governedKinds } from '../policies/stored-objects.ts';
import type { Tracing } from '../../tracing/tracing.ts';
import { asCreated, auditObject, forAudit, hasAudit } from '../../admission/policy/audit.ts';
import { isJsonObject } from '../../json/json.ts';
import { unescapePart } from '../../json/json-patch.ts';
import { mutate } from '../../admission/policy/mutate.ts';
import { heldKeys, type HeldKey } from '../../admission/policy/unique/unique-key.ts';
import { pick } from '../../json/objects.ts';
import { backgroundTurns } from '../../server/limits/turns.ts';

export interface SweepSources extends Pick<StoredObjects, 'pages' | 'keys' | 'read' | 'namespaceLabels'> {
  readonly policies: () => readonly CompiledPolicy[];
  readonly world: RequestWorld;
  /** Waits before violations are confirmed: controllers may still be creating targets. */
  readonly pause: (signal: AbortSignal) => Promise<void>;
  readonly now: () => Date;
}

export interface SweepOptions {
  /** Whether the restore may still write afterwards. */
  readonly interim: boolean;
  readonly since: Date;
  readonly namespaceMapping: Readonly<Record<string, string>>;
}

export interface SweepProgress {
  readonly startedAt: Date;
  readonly objectsScanned: number;
  readonly resource: GroupResource;
  readonly resources: readonly GroupResource[];
}

/** Called and awaited after each page. Must not throw: an error would end the reading of that kind. */
type OnSweepProgress = (progress: SweepProgress, signal: AbortSignal) => Promise<unknown>;

/** The violations of the whole cluster: each window reports those of its own restore. */
export type ClusterSweep = Omit<SweepResult, 'violations'> & {
  readonly violations: readonly SweptViolation[];
};

export type Sweep = (
  options: SweepOptions,
  signal: AbortSignal,
  onProgress?: OnSweepProgress,
) => Promise<ClusterSweep>;

/** After so many failed reads of one kind, the sweep leaves out the rest of the kind. */
const FAILED_READS = 20;

type Exists = (ref: ObjectRef) => Promise<boolean>;

export function createSweep(sources: SweepSources): Sweep {
  return async (options, signal, onProgress) => {
    const { interim } = options;
    const startedAt = sources.now();
    const all = sources.policies();
    const policies = all.filter((policy) => isSwept(policy) && policy.undecidable === undefined);
    const duplicates = createDuplicates(sources);
    const exists = createTargets(sources, signal);
    const namespaces = await sources.namespaceLabels(signal);
    const resources = byKind(policies).map(([resource]) => resource);
    const violations: SweptViolation[] = [];
    const failures = createFailures(signal);
    let objectsScanned = 0;

    const unreadable = await eachPage(
      sources,
      policies,
      async (page, resource, governing) => {
        objectsScanned += page.length;
        const inScope = page
          .flatMap((object) => governing.map((policy) => ({ policy, resource, object })))
          .filter(({ policy, object }) => isInScope(policy, object, namespaces));
        for (const { policy, object } of inScope) duplicates.see(policy, resource, object);
        const found = await mapConcurrent(inScope, CONCURRENT_READS, async (one) => {
          try {
            return swept(one, [
              ...(await referenceViolations(one, exists, options, sources, signal)),
              ...(await deferredViolations(one, sources, signal)),
              ...(await missingDefaults(one, options.since, sources, signal)),
            ]);
          } catch (error) {
            failures.note(resource, error);
            if (failures.isAway(resource)) throw error;
            return [];
          }
        });
        violations.push(...found.flat());
        await onProgress?.({ startedAt, objectsScanned, resource, resources }, signal);
      },
      signal,
    );
    try {
      violations.push(...(await duplicates.confirmed(signal)));
    } catch (error) {
      signal.throwIfAborted();
      unreadable.push(`holders of unique values: ${messageOf(error)}`);
    }
    for (const { name, undecidable } of all)
      if (undecidable !== undefined) unreadable.push(`policy ${name}: ${undecidable.message}`);
    const remaining = interim ? violations : await stillViolated(violations, failures, sources, signal);
    return {
      startedAt,
      finishedAt: sources.now(),
      interim,
      objectsScanned,
      violations: remaining,
      unreadable: [...new Set([...unreadable, ...failures.reasons()])],
    };
  };
}

type Failures = ReturnType<typeof createFailures>;

/** The failed reads of each kind. One says nothing about the next; many mean that the API server is away. */
function createFailures(signal: AbortSignal) {
  const failed = new Map<string, { readonly first: string; readonly count: number }>();
  return {
    note: (resource: GroupResource, error: unknown): void => {
      signal.throwIfAborted();
      const name = groupResourceName(resource);
      const { first = messageOf(error), count = 0 } = failed.get(name) ?? {};
      failed.set(name, { first, count: count + 1 });
    },
    isAway: (resource: GroupResource): boolean =>
      (failed.get(groupResourceName(resource))?.count ?? 0) >= FAILED_READS,
    reasons: (): readonly string[] => [...failed].map(([name, { first }]) => `${name}: ${first}`),
  };
}

const isSwept = ({ references, unique, defaults, restore }: CompiledPolicy): boolean =>
  references.length + unique.length + defaults.length > 0 || restore.defers.schema || restore.defers.rules;

/** Each governed kind in each version that policies match, with the policies that govern it there. */
function byKind(
  policies: readonly CompiledPolicy[],
): readonly (readonly [StoredKind, readonly CompiledPolicy[]])[] {
  const pairs = policies.flatMap((policy) => governedKinds(policy).map((kind) => ({ kind, policy })));
  const nameOf = ({ kind }: { readonly kind: StoredKind }) =>
    `${groupResourceName(kind)} ${kind.version ?? ''}`;
  return [...Map.groupBy(pairs, nameOf).values()].flatMap((same) =>
    same.slice(0, 1).map(({ kind }) => [kind, [...new Set(same.map(({ policy }) => policy))]] as const),
  );
}

/** Returns the kinds that could not be read, with the reason. */
export async function eachPage(
  { pages }: Pick<StoredObjects, 'pages'>,
  policies: readonly CompiledPolicy[],
  visit: (
    page: readonly KubeObject[],
    resource: GroupResource,
    governing: readonly CompiledPolicy[],
  ) => Promise<void>,
  signal: AbortSignal,
): Promise<string[]> {
  const unreadable: string[] = [];
  for (const [resource, governing] of byKind(policies)) {
    try {
      for await (const page of pages(resource, signal)) await visit(page, resource, governing);
    } catch (error) {
      signal.throwIfAborted();
      unreadable.push(`${groupResourceName(resource)}: ${messageOf(error)}`);
    }
  }
  return unreadable;
}

function createTargets({ keys }: SweepSources, signal: AbortSignal): Exists {
  const listed = new Map<string, Promise<ReadonlySet<string>>>();
  return async (ref) => {
    const name = groupResourceName(ref);
    const known = listed.get(name) ?? keys({ group: ref.group, resource: ref.resource }, signal);
    listed.set(name, known);
    return (await known).has(objectKey(ref));
  };
}

/** Checks a suspect live: since the page was read, a reference may have moved or changed. */
async function referenceViolations(
  listed: SweptObject,
  exists: Exists,
  options: SweepOptions,
  { read, now }: SweepSources,
  signal: AbortSignal,
): Promise<readonly Violation[]> {
  const isSuspect = crossing(listed, options).length > 0 || (await dangling(listed, exists)).length > 0;
  if (!isSuspect) return [];
  const { policy, resource } = listed;
  const object = await read(refOf(resource, listed.object), signal);
  if (object === undefined) return [];
  const live = { policy, resource, object };
  const { covers } = exemptionOfStored(policy, resource, object, now().getTime());
  const isChecked = ({ reference }: FoundReference) => !covers('references', reference.name);
  const confirmed: Violation[] = [];
  for (const found of (await dangling(live, exists)).filter(isChecked)) {
    const target = await read(found.target, signal);
    if (target === undefined) confirmed.push(toViolation(live, found, 'TargetMissing'));
  }
  for (const found of crossing(live, options).filter(isChecked))
    confirmed.push(toViolation(live, found, 'CrossesNamespaceMapping'));
  return confirmed;
}

function crossing(
  { policy, object }: SweptObject,
  { namespaceMapping }: SweepOptions,
): readonly FoundReference[] {
  return referencesOf(policy, object).filter(({ target }) =>
    crossesMapping(namespaceMapping, object.metadata?.namespace, target.namespace),
  );
}

async function dangling({ policy, object }: SweptObject, exists: Exists): Promise<readonly FoundReference[]> {
  const missing: FoundReference[] = [];
  for (const found of referencesOf(policy, object)) if (!(await exists(found.target))) missing.push(found);
  return missing;
}

/** The restore may still create a missing target: only those that are missing after a pause are reported. */
async function stillViolated(
  violations: readonly SweptViolation[],
  failures: Failures,
  sources: SweepSources,
  signal: AbortSignal,
): Promise<readonly SweptViolation[]> {
  const missing = violations.filter(({ violation }) => violation.reason === 'TargetMissing');
  if (missing.length === 0) return violations;
  await sources.pause(signal);
  const targets = memoizeAsync(
    (ref: ObjectRef) => sources.read(ref, signal),
    (ref) => `${groupResourceName(ref)} ${objectKey(ref)}`,
  );
  const isMissing = async ({ violation: { target } }: SweptViolation): Promise<boolean> => {
    if (target === undefined || failures.isAway(target)) return true;
    try {
      return (await targets.read({ ...target, namespace: target.namespace })) === undefined;
    } catch (error) {
      failures.note(target, error);
      return true;
    }
  };
  const still = await mapConcurrent(
    violations,
    CONCURRENT_READS,
    async (one) => one.violation.reason !== 'TargetMissing' || (await isMissing(one)),
  );
  return violations.filter((_, index) => still[index]);
}

function toViolation(
  one: SweptObject,
  { reference, field, target: { group, resource, name, namespace } }: FoundReference,
  reason: 'TargetMissing' | 'CrossesNamespaceMapping',
): Violation {
  return {
    ...about(one, field),
    reference: reference.name,
    reason,
    target: { group, resource, name, ...(namespace === undefined ? {} : { namespace }) },
  };
}

/** The pause after a sweep, as a multiple of its duration. */
const REST = 4;
const SHORTEST_REST_MS = 1_000;
const LONGEST_REST_MS = 5 * 60_000;

type SweepOutcome =
  { readonly kind: 'swept'; readonly result: ClusterSweep } | { readonly kind: 'later'; readonly at: Date };

/** Frequent restores must not cause continuous reads. A sweep that began before `notBefore` does not count. */
export function createSharedSweep(sweep: Sweep, now: () => Date) {
  let last: { readonly options: SweepOptions; readonly result: ClusterSweep } | undefined;
  return async (
    options: SweepOptions,
    notBefore: Date,
    signal: AbortSignal,
    onProgress?: OnSweepProgress,
  ): Promise<SweepOutcome> => {
    if (last !== undefined) {
      const { result } = last;
      if (result.startedAt >= notBefore && covers(last.options, options))
        return { kind: 'swept', result: { ...result, interim: options.interim } };
      const took = result.finishedAt.getTime() - result.startedAt.getTime();
      const rest = Math.max(SHORTEST_REST_MS, Math.min(LONGEST_REST_MS, REST * took));
      const at = new Date(result.finishedAt.getTime() + rest);
      if (now() < at) return { kind: 'later', at };
    }
    const result = await sweep(options, signal, onProgress);
    last = { options, result };
    return { kind: 'swept', result };
  };
}

function covers(done: SweepOptions, wanted: SweepOptions): boolean {
  return (
    (!done.interim || wanted.interim) && // an interim sweep does not confirm after a pause
    done.since <= wanted.since &&
    isDeepStrictEqual(done.namespaceMapping, wanted.namespaceMapping)
  );
}

export function traceSweeps(tracing: Tracing | undefined, sweep: Sweep): Sweep {
  if (tracing === undefined) return sweep;
  return (options, ...rest) =>
    tracing.work('sweep', { 'gatehouse.interim': options.interim }, async () => {
      const result = await sweep(options, ...rest);
      const { objectsScanned, violations, unreadable } = result;
      tracing.note({
        'gatehouse.objects': objectsScanned,
        'gatehouse.violations': violations.length,
        'gatehouse.unreadable': unreadable.length,
      });
      return result;
    });
}

/** Live reads of a sweep at a time. With 10 ms each, 100,000 suspects need some two minutes. */
export const CONCURRENT_READS = 16;

export interface SweptObject {
  readonly policy: CompiledPolicy;
  readonly resource: GroupResource;
  readonly object: KubeObject;
}

/** @throws when a check cannot be decided */
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

/** Only for objects created since the restore began: older ones may be older than the policy. */
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

/** Exempt objects claim no values. */
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

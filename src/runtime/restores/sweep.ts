/** The scan after a restore: reads every governed object. Only a live read confirms a violation. */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { isInScope } from '../../admission/policy/match/object-scope.ts';
import { groupResourceName, objectKey, type GroupResource, type ObjectRef } from '../../json/kube-object.ts';
import { mapConcurrent } from '../../json/map-concurrent.ts';
import { memoizeAsync } from '../../json/memoize-async.ts';
import { messageOf } from '../../json/abort.ts';
import type { SweptViolation } from '../../restore/attribution.ts';
import { type StoredObjects, eachPage, byKind } from '../policies/stored-objects.ts';
import {
  CONCURRENT_READS,
  type CheckSources,
  type NamespaceMapping,
  type Exists,
  createDuplicates,
  referenceViolations,
  deferredViolations,
  missingDefaults,
  swept,
} from './sweep-checks.ts';
import { isDeepStrictEqual } from 'node:util';
import type { Tracing } from '../../tracing/tracing.ts';

export interface SweepSources
  extends CheckSources, Pick<StoredObjects, 'pages' | 'keys' | 'namespaceLabels'> {
  readonly policies: () => readonly CompiledPolicy[];
  /** Waits before violations are confirmed: controllers may still be creating targets. */
  readonly pause: (signal: AbortSignal) => Promise<void>;
}

export interface SweepOptions {
  /** Whether the restore may still write afterwards. */
  readonly interim: boolean;
  readonly since: Date;
  readonly namespaceMapping: NamespaceMapping;
}

export interface SweepProgress {
  readonly startedAt: Date;
  readonly objectsScanned: number;
  readonly resource: GroupResource;
  readonly resources: readonly GroupResource[];
}

/** Called and awaited after each page. Must not throw: an error would end the reading of that kind. */
export type OnSweepProgress = (progress: SweepProgress, signal: AbortSignal) => Promise<unknown>;

/** With the violations of the whole cluster. Each window reports only its own. */
export type ClusterSweep = Awaited<ReturnType<Sweep>>;
export type Sweep = ReturnType<typeof createSweep>;

/** After this many failed reads of a kind, the sweep skips the rest of the kind. */
const FAILED_READS = 20;

export function createSweep(sources: SweepSources) {
  return async (options: SweepOptions, signal: AbortSignal, onProgress?: OnSweepProgress) => {
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
              ...(await referenceViolations(one, exists, options.namespaceMapping, sources, signal)),
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

function createTargets({ keys }: SweepSources, signal: AbortSignal): Exists {
  const listed = new Map<string, Promise<ReadonlySet<string>>>();
  return async (ref) => {
    const name = groupResourceName(ref);
    const known = listed.get(name) ?? keys({ group: ref.group, resource: ref.resource }, signal);
    listed.set(name, known);
    return (await known).has(objectKey(ref));
  };
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
  const keyOf = (ref: ObjectRef) => `${groupResourceName(ref)} ${objectKey(ref)}`;
  const targets = memoizeAsync((ref: ObjectRef) => sources.read(ref, signal), keyOf);
  const isMissing = async ({ violation: { target } }: SweptViolation): Promise<boolean> => {
    if (target === undefined || failures.isAway(target)) return true;
    try {
      return (await targets.read({ ...target, namespace: target.namespace })) === undefined;
    } catch (error) {
      failures.note(target, error);
      return true;
    }
  };
  const isLeft = async (one: SweptViolation) =>
    one.violation.reason !== 'TargetMissing' || (await isMissing(one));
  const still = await mapConcurrent(violations, CONCURRENT_READS, isLeft);
  return violations.filter((_, index) => still[index]);
}

/** The pause after a sweep, as a multiple of its duration. */
const REST = 4;
const SHORTEST_REST_MS = 1_000;
const LONGEST_REST_MS = 5 * 60_000;

/** Frequent restores must not cause continuous reads. A sweep that began before `notBefore` does not count. */
export function createSharedSweep(sweep: Sweep, now: () => Date) {
  let last: { readonly options: SweepOptions; readonly result: ClusterSweep } | undefined;
  return async (
    options: SweepOptions,
    notBefore: Date,
    signal: AbortSignal,
    onProgress?: OnSweepProgress,
  ) => {
    if (last !== undefined) {
      const { result } = last;
      if (result.startedAt >= notBefore && covers(last.options, options))
        return { kind: 'swept', result: { ...result, interim: options.interim } } as const;
      const took = result.finishedAt.getTime() - result.startedAt.getTime();
      const rest = Math.max(SHORTEST_REST_MS, Math.min(LONGEST_REST_MS, REST * took));
      const at = new Date(result.finishedAt.getTime() + rest);
      if (now() < at) return { kind: 'later', at } as const;
    }
    const result = await sweep(options, signal, onProgress);
    last = { options, result };
    return { kind: 'swept', result } as const;
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

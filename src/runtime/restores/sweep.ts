/** The scan after a restore: reads every governed object. Only a live read confirms a violation. */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { isInScope } from '../../admission/policy/match/object-scope.ts';
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import { mapConcurrent } from '../../json/map-concurrent.ts';
import { messageOf } from '../../json/abort.ts';
import type { SweptViolation } from '../../restore/attribution.ts';
import { type StoredObjects, eachPage, byKind } from '../policies/stored-objects.ts';
import {
  CONCURRENT_READS,
  type CheckSources,
  createDuplicates,
  deferredViolations,
  missingDefaults,
  swept,
} from './sweep-checks.ts';
import { createReferenceChecks, type NamespaceMapping } from './sweep-references.ts';
import { isDeepStrictEqual } from 'node:util';
import type { Tracing } from '../../tracing/tracing.ts';

export interface SweepSources
  extends CheckSources, Pick<StoredObjects, 'pages' | 'keys' | 'lists' | 'namespaceLabels'> {
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
  readonly phase: 'Reading' | 'Confirming';
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
    const namespaces = await sources.namespaceLabels(signal);
    const resources = byKind(policies).map(([resource]) => resource);
    const violations: SweptViolation[] = [];
    const failures = createFailures(signal);
    const mapping = options.namespaceMapping;
    const references = createReferenceChecks({ sources, mapping, failures, signal });
    let objectsScanned = 0;
    const report = async (phase: SweepProgress['phase'], resource: GroupResource) =>
      await onProgress?.({ startedAt, phase, objectsScanned, resource, resources }, signal);

    const unreadable = await eachPage(
      sources,
      policies,
      async (page, resource, governing) => {
        objectsScanned += page.length;
        references.count(resource, page.length);
        const inScope = page
          .flatMap((object) => governing.map((policy) => ({ policy, resource, object })))
          .filter(({ policy, object }) => isInScope(policy, object, namespaces));
        for (const { policy, object } of inScope) duplicates.see(policy, resource, object);
        const found = await mapConcurrent(inScope, CONCURRENT_READS, async (one) => {
          try {
            await references.see(one);
            return swept(one, [
              ...(await deferredViolations(one, sources, signal)),
              ...(await missingDefaults(one, options.since, sources, signal)),
            ]);
          } catch (error) {
            failures.note(resource, error);
            if (failures.isAway(resource)) throw error;
            return [];
          }
        });
        // Not as arguments of one call, whose number is limited.
        for (const one of found.flat()) violations.push(one);
        await report('Reading', resource);
      },
      signal,
    );
    // The restore may still create a missing target.
    if (!interim && references.hasSuspects()) await sources.pause(signal);
    const confirmed = await references.confirmed((resource) => report('Confirming', resource));
    for (const one of confirmed) violations.push(one);
    try {
      for (const one of await duplicates.confirmed(signal)) violations.push(one);
    } catch (error) {
      signal.throwIfAborted();
      unreadable.push(`holders of unique values: ${messageOf(error)}`);
    }
    for (const { name, undecidable } of all)
      if (undecidable !== undefined) unreadable.push(`policy ${name}: ${undecidable.message}`);
    return {
      startedAt,
      finishedAt: sources.now(),
      interim,
      objectsScanned,
      violations,
      unreadable: [...new Set([...unreadable, ...failures.reasons()])],
    };
  };
}

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

/** The pause after a sweep, as a multiple of its duration. */
const REST = 4;
const SHORTEST_REST_MS = 1_000;
const LONGEST_REST_MS = 5 * 60_000;

/** Frequent restores must not cause continuous reads. A sweep that began before `notBefore` does not count. */
export function createSharedSweep(sweep: Sweep, now: () => Date) {
  let last: { readonly options: SweepOptions; readonly result: ClusterSweep } | undefined;
  let restsUntil = new Date(0);
  return async (
    options: SweepOptions,
    notBefore: Date,
    signal: AbortSignal,
    onProgress?: OnSweepProgress,
  ) => {
    if (last !== undefined && last.result.startedAt >= notBefore && covers(last.options, options))
      return { kind: 'swept', result: { ...last.result, interim: options.interim } } as const;
    if (now() < restsUntil) return { kind: 'later', at: restsUntil } as const;
    last = undefined; // its violations may need much memory
    const result = await sweep(options, signal, onProgress);
    last = { options, result };
    const took = result.finishedAt.getTime() - result.startedAt.getTime();
    const rest = Math.max(SHORTEST_REST_MS, Math.min(LONGEST_REST_MS, REST * took));
    restsUntil = new Date(result.finishedAt.getTime() + rest);
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

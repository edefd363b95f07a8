/**
 * The scan after a restore: reads every object that a policy governs from the API server, and checks the targets that
 * it names. A violation is reported only after a live read confirms it, so a stale page causes no false report.
 */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { isInScope } from '../../admission/policy/match/object-scope.ts';
import { referencesOf, type FoundReference } from '../../admission/policy/references/read-references.ts';
import {
  groupResourceName,
  objectKey,
  type GroupResource,
  type KubeObject,
  type ObjectRef,
} from '../../json/kube-object.ts';
import { memoizeAsync } from '../../json/memoize-async.ts';
import type { World } from '../../admission/policy/world.ts';
import type { Violation } from '../../api/restore-window.ts';
import { messageOf } from '../../json/error-message.ts';
import type { SweepResult } from '../../restore/report.ts';
import type { StoredObjects } from '../policies/stored-objects.ts';
import { governed } from '../policies/policies.ts';
import {
  about,
  createDuplicates,
  crossesMapping,
  missingDefaults,
  refOf,
  deferredViolations,
} from './sweep-checks.ts';

export interface SweepSources extends Pick<StoredObjects, 'pages' | 'keys' | 'read' | 'namespaceLabels'> {
  readonly policies: () => readonly CompiledPolicy[];
  readonly world: World;
  /** Waits before violations are confirmed: controllers may still be creating targets. */
  readonly pause: (signal: AbortSignal) => Promise<void>;
  readonly now: () => Date;
}

/** The restore that a sweep follows. */
export interface SweepOptions {
  /** Whether the restore may still write afterwards. */
  readonly interim: boolean;
  /** When the restore began. */
  readonly since: Date;
  readonly namespaceMapping: Readonly<Record<string, string>>;
}

/** Progress of a sweep. */
export interface SweepProgress {
  readonly startedAt: Date;
  readonly objectsScanned: number;
  /** The kind that is being read. */
  readonly resource: GroupResource;
  /** All kinds of the sweep. */
  readonly resources: readonly GroupResource[];
}

/** Called and awaited after each page. Must not throw: an error would end the reading of that kind. */
export type OnSweepProgress = (progress: SweepProgress, signal: AbortSignal) => Promise<unknown>;

export type Sweep = (
  options: SweepOptions,
  signal: AbortSignal,
  onProgress?: OnSweepProgress,
) => Promise<SweepResult>;

/** An object that may name a missing target. */
interface Suspect {
  readonly policy: CompiledPolicy;
  readonly self: ObjectRef;
}

/** Whether the listed targets contain this one. */
type Exists = (ref: ObjectRef) => Promise<boolean>;

export function createSweep(sources: SweepSources): Sweep {
  return async (options, signal, onProgress) => {
    const { interim } = options;
    const startedAt = sources.now();
    const policies = sources.policies().filter(isSwept);
    const duplicates = createDuplicates(sources);
    const exists = createTargets(sources, signal);
    const namespaces = await sources.namespaceLabels(signal);
    const unreadable: string[] = [];
    const violations: Violation[] = [];
    let objectsScanned = 0;

    const kinds = byResource(policies);
    const resources = kinds.map(([resource]) => resource);
    for (const [resource, governing] of kinds) {
      try {
        for await (const page of sources.pages(resource, signal)) {
          objectsScanned += page.length;
          const inScope = page.flatMap((object) =>
            object.metadata?.deletionTimestamp !== undefined
              ? []
              : governing
                  .filter((policy) => isInScope(policy, object, namespaces))
                  .map((policy) => ({ policy, object })),
          );
          const suspects = await suspectsOf(inScope, resource, exists, options);
          violations.push(...(await confirm(suspects, exists, options, sources, signal)));
          for (const { policy, object } of inScope) {
            duplicates.see(policy, resource, object);
            violations.push(
              ...(await deferredViolations(policy, resource, object, sources, signal)),
              ...(await missingDefaults(policy, resource, object, options.since, sources, signal)),
            );
          }
          await onProgress?.({ startedAt, objectsScanned, resource, resources }, signal);
        }
      } catch (error) {
        signal.throwIfAborted();
        unreadable.push(`${groupResourceName(resource)}: ${messageOf(error)}`);
      }
    }
    try {
      violations.push(...(await duplicates.confirmed(signal)));
    } catch (error) {
      signal.throwIfAborted();
      unreadable.push(`holders of unique values: ${messageOf(error)}`);
    }
    const standing = interim ? violations : await stillStanding(violations, sources, signal);
    return {
      startedAt,
      finishedAt: sources.now(),
      interim,
      objectsScanned,
      violations: standing,
      unreadable,
    };
  };
}

const isSwept = ({ references, unique, defaults, restore }: CompiledPolicy): boolean =>
  references.length + unique.length + defaults.length > 0 || restore.defers.schema || restore.defers.rules;

function byResource(
  policies: readonly CompiledPolicy[],
): readonly (readonly [GroupResource, readonly CompiledPolicy[]])[] {
  const all = new Map<string, { readonly resource: GroupResource; readonly policies: CompiledPolicy[] }>();
  for (const policy of policies) {
    for (const resource of governed(policy)) {
      const name = groupResourceName(resource);
      const entry = all.get(name) ?? { resource, policies: [] };
      entry.policies.push(policy);
      all.set(name, entry);
    }
  }
  return [...all.values()].map(({ resource, policies: governing }) => [resource, governing]);
}

/** Lists each kind of target once per sweep. */
function createTargets({ keys }: SweepSources, signal: AbortSignal): Exists {
  const listed = new Map<string, Promise<ReadonlySet<string>>>();
  return async (ref) => {
    const name = groupResourceName(ref);
    const known = listed.get(name) ?? keys({ group: ref.group, resource: ref.resource }, signal);
    listed.set(name, known);
    return (await known).has(objectKey(ref));
  };
}

async function suspectsOf(
  governed: readonly { readonly policy: CompiledPolicy; readonly object: KubeObject }[],
  resource: GroupResource,
  exists: Exists,
  options: SweepOptions,
): Promise<readonly Suspect[]> {
  const suspects: Suspect[] = [];
  for (const { policy, object } of governed) {
    const crosses = crossing(policy, object, options).length > 0;
    if (crosses || (await dangling(policy, object, exists)).length > 0)
      suspects.push({ policy, self: refOf(resource, object) });
  }
  return suspects;
}

/** References of a copied object that still name the source namespace. */
function crossing(
  policy: CompiledPolicy,
  object: KubeObject,
  { namespaceMapping }: SweepOptions,
): readonly FoundReference[] {
  return referencesOf(policy, object).filter(({ target }) =>
    crossesMapping(namespaceMapping, object.metadata?.namespace, target.namespace),
  );
}

async function dangling(
  policy: CompiledPolicy,
  object: KubeObject,
  exists: Exists,
): Promise<readonly FoundReference[]> {
  const missing: FoundReference[] = [];
  for (const found of referencesOf(policy, object)) if (!(await exists(found.target))) missing.push(found);
  return missing;
}

/** Checks the suspects live: since the page was read, a reference may have moved or changed. */
async function confirm(
  suspects: readonly Suspect[],
  exists: Exists,
  options: SweepOptions,
  { read }: SweepSources,
  signal: AbortSignal,
): Promise<readonly Violation[]> {
  const confirmed: Violation[] = [];
  for (const { policy, self } of suspects) {
    const live = await read(self, signal);
    if (live === undefined || live.metadata?.deletionTimestamp !== undefined) continue;
    for (const found of await dangling(policy, live, exists)) {
      const target = await read(found.target, signal);
      if (target === undefined) confirmed.push(toViolation(policy, live, found, 'TargetMissing'));
    }
    for (const found of crossing(policy, live, options))
      confirmed.push(toViolation(policy, live, found, 'CrossesNamespaceMapping'));
  }
  return confirmed;
}

/**
 * The next write of the restore may create a missing target. The sweep reports only targets that are still missing
 * after a pause.
 */
async function stillStanding(
  violations: readonly Violation[],
  sources: SweepSources,
  signal: AbortSignal,
): Promise<readonly Violation[]> {
  const missing = violations.filter(({ reason }) => reason === 'TargetMissing');
  if (missing.length === 0) return violations;
  await sources.pause(signal);
  const targets = memoizeAsync(
    (ref: ObjectRef) => sources.read(ref, signal),
    (ref) => `${groupResourceName(ref)} ${objectKey(ref)}`,
  );
  const isMissing = async ({ target }: Violation): Promise<boolean> =>
    target === undefined ||
    (await targets.read({ ...target, group: target.group ?? '', namespace: target.namespace })) === undefined;
  const still = await Promise.all(
    violations.map(async (one) => one.reason !== 'TargetMissing' || (await isMissing(one))),
  );
  return violations.filter((_, index) => still[index]);
}

function toViolation(
  policy: CompiledPolicy,
  object: KubeObject,
  { reference, field, target }: FoundReference,
  reason: 'TargetMissing' | 'CrossesNamespaceMapping',
): Violation {
  return {
    ...about(policy, object, field),
    reference: reference.name,
    reason,
    target: {
      group: target.group,
      resource: target.resource,
      name: target.name,
      ...(target.namespace === undefined ? {} : { namespace: target.namespace }),
    },
  };
}

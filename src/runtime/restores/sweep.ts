/**
 * The scan after a restore: every stored object that a policy governs, read from the API server, against every target that
 * it names. What seems wrong is read again, live, before it is reported, so a stale page accuses nobody.
 */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { isInScope, type NamespaceLabels } from '../../admission/policy/match/object-scope.ts';
import { referencesOf, type FoundReference } from '../../admission/policy/references/read-references.ts';
import {
  groupResourceName,
  objectKey,
  type GroupResource,
  type KubeObject,
  type ObjectRef,
} from '../../json/kube-object.ts';
import type { World } from '../../admission/policy/world.ts';
import type { Violation } from '../../api/restore-window.ts';
import type { SweepResult } from '../../restore/report.ts';
import { governed } from '../policies/policies.ts';
import {
  about,
  createDuplicates,
  crossesMapping,
  lackingDefaults,
  refOf,
  waitingViolations,
} from './sweep-checks.ts';

export interface SweepDeps {
  readonly policies: () => readonly CompiledPolicy[];
  /** Every object of a kind, page by page, straight from storage. Throws when the kind cannot be read. */
  readonly pages: (resource: GroupResource, signal: AbortSignal) => AsyncIterable<readonly KubeObject[]>;
  /** The keys of every object of a kind, straight from storage. */
  readonly keys: (resource: GroupResource, signal: AbortSignal) => Promise<ReadonlySet<string>>;
  readonly read: (ref: ObjectRef, signal: AbortSignal) => Promise<KubeObject | undefined>;
  /** The labels of each namespace. */
  readonly namespaceLabels: (signal: AbortSignal) => Promise<NamespaceLabels>;
  /** What checks see of the cluster. */
  readonly world: World;
  /** Between the two looks at what seems wrong: controllers may still be making targets. */
  readonly pause: (signal: AbortSignal) => Promise<void>;
  readonly now: () => Date;
}

/** What a sweep has to know of the restore before it. */
export interface SweepOptions {
  /** Whether writes may still arrive after it. */
  readonly interim: boolean;
  /** When the restore began. */
  readonly since: Date;
  readonly namespaceMapping: Readonly<Record<string, string>>;
}

/** How far a sweep has come. */
export interface SweepProgress {
  readonly startedAt: Date;
  readonly objectsScanned: number;
  /** Of the objects that are being read. */
  readonly resource: GroupResource;
  /** All that it reads. */
  readonly resources: readonly GroupResource[];
}

/** Told of each page, and waited for. What it throws ends the reading of that kind: it had better not. */
export type OnSweepProgress = (progress: SweepProgress, signal: AbortSignal) => Promise<unknown>;

export type Sweep = (
  options: SweepOptions,
  signal: AbortSignal,
  onProgress?: OnSweepProgress,
) => Promise<SweepResult>;

/** An object that seemed to name a target that is not there. */
interface Suspect {
  readonly policy: CompiledPolicy;
  readonly self: ObjectRef;
}

/** Whether a target is among those that were listed. */
type Exists = (ref: ObjectRef) => Promise<boolean>;

export function createSweep(deps: SweepDeps): Sweep {
  return async (options, signal, onProgress) => {
    const { interim } = options;
    const startedAt = deps.now();
    const policies = deps.policies().filter(isSwept);
    const duplicates = createDuplicates(deps);
    const exists = createTargets(deps, signal);
    const namespaces = await deps.namespaceLabels(signal);
    const unreadable: string[] = [];
    const violations: Violation[] = [];
    let objectsScanned = 0;

    const kinds = byResource(policies);
    const resources = kinds.map(([resource]) => resource);
    for (const [resource, governing] of kinds) {
      try {
        for await (const page of deps.pages(resource, signal)) {
          objectsScanned += page.length;
          const inScope = page.flatMap((object) =>
            object.metadata?.deletionTimestamp !== undefined
              ? []
              : governing
                  .filter((policy) => isInScope(policy, object, namespaces))
                  .map((policy) => ({ policy, object })),
          );
          const suspects = await suspectsOf(inScope, resource, exists, options);
          violations.push(...(await confirm(suspects, exists, options, deps, signal)));
          for (const { policy, object } of inScope) {
            duplicates.see(policy, resource, object);
            violations.push(
              ...(await waitingViolations(policy, resource, object, deps, signal)),
              ...(await lackingDefaults(policy, resource, object, options.since, deps, signal)),
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
      unreadable.push(`who holds unique values: ${messageOf(error)}`);
    }
    const standing = interim ? violations : await lookAgain(violations, deps, signal);
    return { startedAt, finishedAt: deps.now(), interim, objectsScanned, violations: standing, unreadable };
  };
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

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

/** Which targets there are, listed once a kind and sweep. */
function createTargets({ keys }: SweepDeps, signal: AbortSignal): Exists {
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

/** References of a copy into the namespace that it was copied from. */
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

/** Judges a suspect as it is now: a reference may have moved within the object since, or may name something else. */
async function confirm(
  suspects: readonly Suspect[],
  exists: Exists,
  options: SweepOptions,
  { read }: SweepDeps,
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

/** What was wrong with references may have been a moment between two writes: what is wrong after a pause too is reported. */
async function lookAgain(
  violations: readonly Violation[],
  deps: SweepDeps,
  signal: AbortSignal,
): Promise<readonly Violation[]> {
  const missing = violations.filter(({ reason }) => reason === 'TargetMissing');
  if (missing.length === 0) return violations;
  await deps.pause(signal);
  const gone = new Map<string, Promise<boolean>>();
  const isMissing = ({ target }: Violation): Promise<boolean> => {
    if (target === undefined) return Promise.resolve(true);
    const ref = { ...target, group: target.group ?? '', namespace: target.namespace };
    const key = `${groupResourceName(ref)} ${objectKey(ref)}`;
    const answer = gone.get(key) ?? deps.read(ref, signal).then((found) => found === undefined);
    gone.set(key, answer);
    return answer;
  };
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

/**
 * The scan after a restore: every stored object that a policy governs, read from the API server, against every target that
 * it names. What seems wrong is read again, live, before it is reported, so a stale page accuses nobody.
 */
import type { CompiledPolicy } from '../admission/compile.ts';
import { isInScope, type NamespaceLabels } from '../admission/object-scope.ts';
import { referencesOf, type FoundReference } from '../admission/references.ts';
import {
  groupResourceName,
  objectKey,
  type GroupResource,
  type KubernetesObject,
  type ObjectRef,
} from '../api/meta.ts';
import type { Violation } from '../api/restore-window.ts';
import type { SweepResult } from '../restore/report.ts';
import { governed } from './policies.ts';

export interface SweepDeps {
  readonly policies: () => readonly CompiledPolicy[];
  /** Every object of a kind, page by page, straight from storage. Throws when the kind cannot be read. */
  readonly pages: (
    resource: GroupResource,
    signal: AbortSignal,
  ) => AsyncIterable<readonly KubernetesObject[]>;
  /** The keys of every object of a kind, straight from storage. */
  readonly keys: (resource: GroupResource, signal: AbortSignal) => Promise<ReadonlySet<string>>;
  readonly read: (ref: ObjectRef, signal: AbortSignal) => Promise<KubernetesObject | undefined>;
  /** The labels of each namespace. */
  readonly namespaceLabels: (signal: AbortSignal) => Promise<NamespaceLabels>;
  readonly now: () => Date;
}

/** An object that seemed to name a target that is not there. */
interface Suspect {
  readonly policy: CompiledPolicy;
  readonly self: ObjectRef;
}

/** Whether a target is among those that were listed. */
type Exists = (ref: ObjectRef) => Promise<boolean>;

export function createSweep(
  deps: SweepDeps,
): (interim: boolean, signal: AbortSignal) => Promise<SweepResult> {
  return async (interim, signal) => {
    const startedAt = deps.now();
    const policies = deps.policies().filter((policy) => policy.references.length > 0);
    const exists = createTargets(deps, signal);
    const namespaces = await deps.namespaceLabels(signal);
    const unreadable: string[] = [];
    const violations: Violation[] = [];
    let objectsScanned = 0;

    for (const [resource, governing] of byResource(policies)) {
      try {
        for await (const page of deps.pages(resource, signal)) {
          objectsScanned += page.length;
          const suspects = await suspectsOf(page, resource, governing, namespaces, exists);
          violations.push(...(await confirm(suspects, exists, deps, signal)));
        }
      } catch (error) {
        signal.throwIfAborted();
        unreadable.push(
          `${groupResourceName(resource)}: ${error instanceof Error ? error.message : String(error)}`,
        );
      }
    }
    return { startedAt, finishedAt: deps.now(), interim, objectsScanned, violations, unreadable };
  };
}

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
  page: readonly KubernetesObject[],
  resource: GroupResource,
  policies: readonly CompiledPolicy[],
  namespaces: NamespaceLabels,
  exists: Exists,
): Promise<readonly Suspect[]> {
  const suspects: Suspect[] = [];
  for (const object of page) {
    if (object.metadata?.deletionTimestamp !== undefined) continue;
    for (const policy of policies.filter((candidate) => isInScope(candidate, object, namespaces))) {
      if ((await dangling(policy, object, exists)).length === 0) continue;
      const { name = '', namespace } = object.metadata ?? {};
      suspects.push({ policy, self: { ...resource, name, namespace } });
    }
  }
  return suspects;
}

async function dangling(
  policy: CompiledPolicy,
  object: KubernetesObject,
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
  { read }: SweepDeps,
  signal: AbortSignal,
): Promise<readonly Violation[]> {
  const confirmed: Violation[] = [];
  for (const { policy, self } of suspects) {
    const live = await read(self, signal);
    if (live === undefined || live.metadata?.deletionTimestamp !== undefined) continue;
    for (const found of await dangling(policy, live, exists)) {
      if ((await read(found.target, signal)) === undefined) confirmed.push(toViolation(policy, live, found));
    }
  }
  return confirmed;
}

function toViolation(
  policy: CompiledPolicy,
  object: KubernetesObject,
  { reference, field, target }: FoundReference,
): Violation {
  const { name = '', namespace, uid } = object.metadata ?? {};
  return {
    policy: policy.name,
    reference: reference.name,
    object: {
      apiVersion: object.apiVersion ?? '',
      kind: object.kind ?? '',
      name,
      ...(namespace === undefined ? {} : { namespace }),
      ...(uid === undefined ? {} : { uid }),
    },
    field,
    reason: 'TargetMissing',
    target: {
      group: target.group,
      resource: target.resource,
      name: target.name,
      ...(target.namespace === undefined ? {} : { namespace: target.namespace }),
    },
  };
}

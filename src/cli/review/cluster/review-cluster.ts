/** `gatehouse review --cluster`: checks the existing objects of a cluster against policies. Read-only. */
import { hasAudit } from '../../../admission/policy/audit.ts';
import type { CompiledPolicy } from '../../../admission/policy/compiled-policy.ts';
import { isInScope } from '../../../admission/policy/match/object-scope.ts';
import {
  groupResourceName,
  keyOf,
  refOf,
  type GroupResource,
  type KubeObject,
  type ObjectRef,
} from '../../../json/kube-object.ts';
import { memoizeAsync } from '../../../json/memoize-async.ts';
import { scanStored, type AuditSources, type Violator } from '../../../runtime/policies/audit-scan.ts';
import { storedObjects, type StoredObjects } from '../../../runtime/policies/stored-objects.ts';
import { withProgress, type ProgressLine } from '../../terminal/progress.ts';
import type { ReviewFlags } from '../flags.ts';
import type { ReadOptions } from '../input.ts';
import { loadClusterPolicies, loadWorld, NEVER } from './load.ts';
import { withCluster, type UserCluster } from '../../connect.ts';
import { parseJson, isJsonObject } from '../../../json/json.ts';
import { coverageNotes } from '../policies.ts';
import { governed } from '../../../runtime/policies/policy-kinds.ts';
import { exemptionOfStored } from '../../../admission/policy/exceptions/exceptions.ts';
import { obstacleViolation } from '../../../admission/policy/unique/check-unique.ts';
import { pick } from '../../../json/objects.ts';
import { heldKeys, type HeldKey } from '../../../admission/policy/unique/unique-key.ts';

export interface PolicyReview {
  readonly policy: string;
  readonly enforcement: CompiledPolicy['enforcement'];
  /** The number of objects that were checked. */
  readonly checked: number;
  readonly violators: readonly Violator[];
  /** Why some objects were not checked; undefined if all were. */
  readonly incomplete: string | undefined;
}

export interface ClusterReview {
  readonly policies: readonly PolicyReview[];
  readonly notes: readonly string[];
}

/** @throws UnusableInput for policies in files, and an Error when the API server does not respond */
export const reviewCluster = (
  flags: ReviewFlags,
  options: ReadOptions,
  ownNamespace: string,
): Promise<ClusterReview> =>
  withCluster(
    flags,
    'review',
    async (cluster) => {
      const loaded = await loadClusterPolicies(cluster, flags, options, ownNamespace);
      return await withProgress((line) => reviewAll(cluster, loaded, ownNamespace, line));
    },
    parseJson,
  );

async function reviewAll(
  cluster: UserCluster,
  loaded: Awaited<ReturnType<typeof loadClusterPolicies>>,
  ownNamespace: string,
  line: ProgressLine,
): Promise<ClusterReview> {
  // The user has requested it: include policies without the hourly audit.
  const asked = loaded.policies.map((policy) => ({ ...policy, audit: true }));
  const auditable = asked.filter(hasAudit);
  const notes = new Set([
    ...asked
      .filter((policy) => !auditable.includes(policy))
      .map(({ name }) => `AdmissionPolicy ${name} has no rule for existing objects`),
    ...coverageNotes(asked),
  ]);
  const stored = storedObjects(cluster.client, cluster.discovery);
  const namespaces = await stored.namespaceLabels(NEVER);
  const onPage = await pageCounter(auditable, stored, line);
  const sources: AuditSources = {
    stored: {
      pages: async function* (resource, waiting) {
        if ((await cluster.discovery.resolve(resource, waiting)) === undefined) {
          notes.add(`the API server does not serve ${groupResourceName(resource)}: no such objects exist`);
          return;
        }
        for await (const page of stored.pages(resource, waiting)) {
          onPage(resource, page.length);
          // No policy governs the namespace of Gatehouse.
          yield page.filter(({ metadata }) => metadata?.namespace !== ownNamespace);
        }
      },
      namespaceLabels: () => Promise.resolve(namespaces),
    },
    world: await loadWorld(cluster, auditable),
    now: () => new Date(),
  };
  const policies: PolicyReview[] = [];
  for (const policy of auditable) policies.push(await reviewPolicy(policy, sources));
  for (const { name, message } of loaded.broken)
    policies.push({
      policy: name,
      enforcement: 'Deny',
      checked: 0,
      violators: [],
      incomplete: `the policy cannot be enforced: ${message}`,
    });
  return { policies, notes: [...notes] };
}

async function reviewPolicy(policy: CompiledPolicy, sources: AuditSources): Promise<PolicyReview> {
  const duplicates = collectDuplicates(policy, sources.now());
  const { pages, namespaceLabels } = sources.stored;
  /** The same pages; adds the objects that the policy selects to `duplicates`. */
  const tapped: typeof pages = async function* (resource, waiting) {
    const namespaces = await namespaceLabels(waiting);
    const { group, resource: plural } = resource;
    for await (const page of pages(resource, waiting)) {
      for (const object of page) {
        if (isInScope(policy, object, namespaces)) duplicates.add({ group, resource: plural }, object);
      }
      yield page;
    }
  };
  const violators: Violator[] = [];
  const { checked = 0, message } = await scanStored(
    policy,
    { ...sources, stored: { namespaceLabels, pages: tapped } },
    (violator) => violators.push(violator),
    NEVER,
  );
  return {
    policy: policy.name,
    enforcement: policy.enforcement,
    checked,
    violators: merged([...violators, ...duplicates.violators()]),
    incomplete: message,
  };
}

/** Merges the entries of each object. */
function merged(violators: readonly Violator[]): readonly Violator[] {
  const byObject = Map.groupBy(
    violators,
    ({ resource, object }) => `${groupResourceName(resource)} ${keyOf(object)}`,
  );
  return [...byObject.values()].flatMap((same) =>
    same.slice(0, 1).map((first) => ({ ...first, violations: same.flatMap(({ violations }) => violations) })),
  );
}

/**
 * The function to call with the number of objects of a page, before they are checked. Counts the objects only if
 * progress is shown. Each policy reviews its kinds separately, so a kind counts once per policy.
 */
async function pageCounter(
  policies: readonly CompiledPolicy[],
  { count }: Pick<StoredObjects, 'count'>,
  line: ProgressLine,
): Promise<(resource: GroupResource, objects: number) => void> {
  const total = line.isShown ? await totalOf(policies.flatMap(governed), count) : undefined;
  let done = 0;
  return (resource, objects) => {
    line.show({ what: groupResourceName(resource), done, total });
    done += objects;
  };
}

async function totalOf(
  resources: readonly GroupResource[],
  count: StoredObjects['count'],
): Promise<number | undefined> {
  // The review itself reports kinds that cannot be read.
  const counts = memoizeAsync(
    (resource: GroupResource) => count(resource, NEVER).catch(() => 0),
    groupResourceName,
  );
  const all = await Promise.all(resources.map(counts.read));
  return all.includes(undefined) ? undefined : all.reduce<number>((total, one) => total + (one ?? 0), 0);
}

interface Holder extends Pick<Violator, 'resource' | 'object'> {
  readonly self: ObjectRef;
  readonly key: HeldKey;
}

/** Objects that share a unique value, with or without claims. Exempt ones claim no values, so they do not count. */
function collectDuplicates(policy: CompiledPolicy, now: Date) {
  const all: Holder[] = [];
  return {
    add: (resource: GroupResource, object: KubeObject): void => {
      const json: unknown = object;
      if (!isJsonObject(json)) return;
      const self = refOf(resource, object);
      const { covers } = exemptionOfStored(policy, self, object, now.getTime());
      // Only the identity: all objects of a cluster would not fit into memory.
      const identity = {
        ...pick(object, 'apiVersion', 'kind'),
        metadata: pick(object.metadata ?? {}, 'name', 'namespace'),
      };
      for (const key of heldKeys(policy, json, self))
        if (!covers('unique', key.rule.name)) all.push({ resource, object: identity, self, key });
    },
    /** Each object that shares values with others, with one entry per value. */
    violators: (): readonly Violator[] =>
      [...Map.groupBy(all, ({ key }) => key.claim).values()].flatMap((holders) =>
        holders.flatMap((holder, index) => violatorOf(policy, holder, holders[index === 0 ? 1 : 0])),
      ),
  };
}

function violatorOf(
  policy: CompiledPolicy,
  { resource, object, self, key }: Holder,
  other: Holder | undefined,
): readonly Violator[] {
  if (other === undefined) return [];
  const wanted = { ...key, policy, self };
  const violation = obstacleViolation({ kind: 'held', key: wanted, holder: other.self, beingDeleted: false });
  return violation === undefined ? [] : [{ resource, object, violations: [violation] }];
}

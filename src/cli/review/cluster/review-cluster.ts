/** `gatehouse review --cluster`: checks the existing objects of a cluster against policies. Read-only. */
import { hasAudit } from '../../../admission/policy/audit.ts';
import type { CompiledPolicy } from '../../../admission/policy/compiled-policy.ts';
import { isInScope } from '../../../admission/policy/match/object-scope.ts';
import {
  groupResourceName,
  objectKey,
  type KubeObject,
  type GroupResource,
} from '../../../json/kube-object.ts';
import { memoizeAsync } from '../../../json/memoize-async.ts';
import { scanStored, type AuditSources, type Culprit } from '../../../runtime/policies/audit-scan.ts';
import { storedObjects, type StoredObjects } from '../../../runtime/policies/stored-objects.ts';
import { withProgress, type ProgressLine } from '../../terminal/progress.ts';
import type { ReviewFlags } from '../flags.ts';
import type { ReadOptions } from '../input.ts';
import { loadClusterPolicies, loadWorld } from './load.ts';
import { connectToCluster, type UserCluster } from '../../connect.ts';
import { parseJson } from '../../../json/json.ts';
import { collectDuplicates, type Duplicates } from './duplicates.ts';
import { governed } from '../../../runtime/policies/policies.ts';

export interface PolicyReview {
  readonly policy: string;
  readonly enforcement: CompiledPolicy['enforcement'];
  /** The number of objects that were checked. */
  readonly checked: number;
  readonly culprits: readonly Culprit[];
  /** Why some objects were not checked; undefined if all were. */
  readonly incomplete: string | undefined;
}

export interface ClusterReview {
  readonly policies: readonly PolicyReview[];
  readonly notes: readonly string[];
}

/** @throws UnusableInput for policies in files, and an Error when the API server does not respond */
export async function reviewCluster(
  flags: ReviewFlags,
  options: ReadOptions,
  ownNamespace: string,
): Promise<ClusterReview> {
  const cluster = await connectToCluster(flags, 'review', parseJson);
  try {
    return await withProgress((line) =>
      reviewConnected(cluster, flags, options, ownNamespace, line, new AbortController().signal),
    );
  } finally {
    await cluster.close();
  }
}

async function reviewConnected(
  cluster: UserCluster,
  flags: ReviewFlags,
  options: ReadOptions,
  ownNamespace: string,
  line: ProgressLine,
  signal: AbortSignal,
): Promise<ClusterReview> {
  const given = { given: flags.policies, crds: flags.crds ?? [] };
  const loaded = await loadClusterPolicies(cluster, given, options, ownNamespace, signal);
  // The user has requested it: include policies without the hourly audit.
  const asked = loaded.policies.map((policy) => ({ ...policy, audit: true }));
  const auditable = asked.filter(hasAudit);
  const notes = new Set(
    asked
      .filter((policy) => !auditable.includes(policy))
      .map(({ name }) => `AdmissionPolicy ${name} has no rule for existing objects`),
  );
  const stored = storedObjects(cluster);
  const namespaces = await stored.namespaceLabels(signal);
  const { onPage } = await followPages(auditable, stored, line, signal);
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
    world: await loadWorld(cluster, auditable, signal),
    now: () => new Date(),
  };
  const policies: PolicyReview[] = [];
  for (const policy of auditable) policies.push(await reviewPolicy(policy, sources, signal));
  const broken = loaded.broken.map(({ name, message }) => unusable(name, message));
  return { policies: [...policies, ...broken], notes: [...notes] };
}

async function reviewPolicy(
  policy: CompiledPolicy,
  sources: AuditSources,
  signal: AbortSignal,
): Promise<PolicyReview> {
  const duplicates = collectDuplicates(policy, sources.now());
  const culprits: Culprit[] = [];
  const result = await scanStored(
    policy,
    { ...sources, stored: { ...sources.stored, pages: tapped(duplicates, policy, sources.stored, signal) } },
    (culprit) => culprits.push(culprit),
    signal,
  );
  return {
    policy: policy.name,
    enforcement: policy.enforcement,
    checked: result.checked ?? 0,
    culprits: merged([...culprits, ...duplicates.culprits()]),
    incomplete: result.message,
  };
}

/** The same pages; adds the objects that the policy selects to `duplicates`. */
function tapped(
  duplicates: Duplicates,
  policy: CompiledPolicy,
  { pages, namespaceLabels }: AuditSources['stored'],
  signal: AbortSignal,
): AuditSources['stored']['pages'] {
  return async function* (resource, waiting) {
    const namespaces = await namespaceLabels(signal);
    const { group, resource: plural } = resource;
    for await (const page of pages(resource, waiting)) {
      for (const object of page) {
        if (isInScope(policy, object, namespaces)) duplicates.add({ group, resource: plural }, object);
      }
      yield page;
    }
  };
}

/** Merges the entries of each object. */
function merged(culprits: readonly Culprit[]): readonly Culprit[] {
  const byObject = Map.groupBy(culprits, ({ resource, object }) => keyOf(resource, object));
  return [...byObject.values()].flatMap((same) => {
    const [first] = same;
    return first === undefined
      ? []
      : [{ ...first, violations: same.flatMap(({ violations }) => violations) }];
  });
}

const keyOf = (resource: Culprit['resource'], { metadata }: KubeObject): string =>
  `${groupResourceName(resource)} ${objectKey(metadata ?? {})}`;

const unusable = (policy: string, message: string): PolicyReview => ({
  policy,
  enforcement: 'Deny',
  checked: 0,
  culprits: [],
  incomplete: `the policy cannot be enforced: ${message}`,
});

export interface FollowedPages {
  /** Called with the number of objects of a page, before they are checked. */
  readonly onPage: (resource: GroupResource, objects: number) => void;
}

/**
 * Counts the objects only if progress is shown. Each policy reviews its kinds separately, so a kind counts once per
 * policy.
 */
export async function followPages(
  policies: readonly CompiledPolicy[],
  { count }: Pick<StoredObjects, 'count'>,
  line: ProgressLine,
  signal: AbortSignal,
): Promise<FollowedPages> {
  const total = line.isShown ? await totalOf(policies.flatMap(governed), count, signal) : undefined;
  let done = 0;
  return {
    onPage: (resource, objects) => {
      line.show({ what: groupResourceName(resource), done, total });
      done += objects;
    },
  };
}

async function totalOf(
  resources: readonly GroupResource[],
  count: StoredObjects['count'],
  signal: AbortSignal,
): Promise<number | undefined> {
  // The review itself reports kinds that cannot be read.
  const counts = memoizeAsync(
    (resource: GroupResource) => count(resource, signal).catch(() => 0),
    groupResourceName,
  );
  const all = await Promise.all(resources.map(counts.read));
  return all.includes(undefined) ? undefined : all.reduce<number>((total, one) => total + (one ?? 0), 0);
}

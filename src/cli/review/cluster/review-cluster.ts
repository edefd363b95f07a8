/** `gatehouse review --cluster`: checks existing objects against policies. Read-only. docs/review.md documents the JSON. */
import { hasAudit } from '../../../admission/policy/audit.ts';
import type { CompiledPolicy } from '../../../admission/policy/compiled-policy.ts';
import { isInScope } from '../../../admission/policy/match/object-scope.ts';
import {
  type GroupResource,
  groupResourceName,
  keyOf,
  type KubeObject,
  type ObjectRef,
  refOf,
} from '../../../json/kube-object.ts';
import { memoizeAsync } from '../../../json/memoize-async.ts';
import {
  type AuditSources,
  scanStored,
  storedObjects,
  type StoredObjects,
  type Violator,
} from '../../../runtime/policies/stored-objects.ts';
import { type ProgressLine, withProgress } from '../../terminal/progress.ts';
import type { ReviewFlags } from '../flags.ts';
import type { ReadOptions } from '../input.ts';
import { loadClusterPolicies, loadWorld } from './load.ts';
import { NEVER, type UserCluster, withCluster } from '../../connect.ts';
import { isJsonObject, parseJson, pick } from '../../../json/json.ts';
import { coverageNotes } from '../policies.ts';
import { governed } from '../../../runtime/policies/policy-kinds.ts';
import { exemptionOfStored } from '../../../admission/policy/exceptions/exceptions.ts';
import { obstacleViolation } from '../../../admission/policy/unique/check-unique.ts';
import { type HeldKey, heldKeys } from '../../../admission/policy/unique/unique-key.ts';
import { describeIdentity, type Identity } from '../review-result.ts';
import type { JunitCase, JunitSuite } from '../report/junit.ts';
import { counted } from '../../../json/counted.ts';
import { printable } from '../../../json/printable.ts';
import { formatTable, paint } from '../../terminal/output.ts';

type PolicyReview = Awaited<ReturnType<typeof reviewPolicy>>;
type ClusterReview = Awaited<ReturnType<typeof reviewAll>>;

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
    { parse: parseJson },
  );

async function reviewAll(
  cluster: UserCluster,
  loaded: Awaited<ReturnType<typeof loadClusterPolicies>>,
  ownNamespace: string,
  line: ProgressLine,
) {
  // The user has requested it: include policies without the hourly audit.
  const asked = loaded.policies.map((policy) => ({ ...policy, audit: true }));
  const auditable = asked.filter(hasAudit);
  const notes = new Set([
    ...asked
      .filter((policy) => !auditable.includes(policy))
      .map(({ name }) => `AdmissionPolicy ${name} lacks rules for existing objects`),
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
      name,
      enforcement: 'Deny',
      checked: 0,
      violators: [],
      incomplete: `the policy cannot be enforced: ${message}`,
    });
  return { policies, notes: [...notes] };
}

async function reviewPolicy(policy: CompiledPolicy, sources: AuditSources) {
  const duplicates = collectDuplicates(policy, sources.now());
  const { pages, namespaceLabels } = sources.stored;
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
    ...pick(policy, 'name', 'enforcement'),
    checked,
    violators: merged([...violators, ...duplicates.violators()]),
    incomplete: message,
  };
}

function merged(violators: readonly Violator[]): readonly Violator[] {
  const byObject = Map.groupBy(
    violators,
    ({ resource, object }) => `${groupResourceName(resource)} ${keyOf(object)}`,
  );
  return [...byObject.values()].flatMap((same) =>
    same.slice(0, 1).map((first) => ({ ...first, violations: same.flatMap(({ violations }) => violations) })),
  );
}

/** Counts the objects only if progress is shown. A kind counts once per policy. */
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

export function clusterTable({ policies }: ClusterReview, colours: boolean): string {
  const rows = policies.flatMap((review) =>
    review.violators.map((violator) => ({
      cells: [describeIdentity(identityOf(violator)), review.name],
      lines: linesOf(violator),
    })),
  );
  const totals = policies.map(({ name, enforcement, checked, violators, incomplete }) => ({
    cells: [
      name,
      enforcement,
      String(checked),
      violators.length > 0 ? { text: String(violators.length), tone: 'bad' as const } : '0',
      String(violationsOf(violators)),
    ],
    lines: incomplete === undefined ? [] : [`incomplete: ${incomplete}`],
  }));
  return [
    ...(rows.length === 0 ? [] : [formatTable(['OBJECT', 'POLICY', 'VIOLATION'], rows, colours), '']),
    formatTable(['POLICY', 'ENFORCEMENT', 'CHECKED', 'OBJECTS', 'VIOLATIONS', ''], totals, colours),
    '',
    sentence(policies, colours),
    '',
  ].join('\n');
}

function sentence(policies: readonly PolicyReview[], colours: boolean): string {
  const { objects, violations, incomplete } = summaryOf(policies);
  const found = paint(
    violations === 0
      ? { text: 'no violations', tone: 'good' }
      : { text: `${counted(violations, 'violation')} in ${counted(objects, 'object')}`, tone: 'bad' },
    colours,
  );
  if (incomplete === 0) return found;
  const text = `${incomplete} of ${counted(policies.length, 'policy')} incomplete`;
  return `${found}; ${paint({ text, tone: 'warn' }, colours)}`;
}

function summaryOf(policies: readonly PolicyReview[]) {
  const violators = policies.flatMap((review) => review.violators);
  return {
    policies: policies.length,
    objects: new Set(violators.map((violator) => JSON.stringify(identityOf(violator)))).size,
    violations: violationsOf(violators),
    incomplete: policies.filter(({ incomplete }) => incomplete !== undefined).length,
  };
}

const violationsOf = (violators: readonly Violator[]): number =>
  violators.reduce((sum, { violations }) => sum + violations.length, 0);

function identityOf({ object: { apiVersion = '', kind = '', metadata = {} } }: Violator): Identity {
  const { name = '', namespace } = metadata;
  return { apiVersion, kind, namespace, name };
}

const linesOf = ({ violations }: Violator): readonly string[] =>
  violations.map(({ field, message }) => (field === '' ? message : `${field}: ${message}`));

export function clusterJson({ policies, notes }: ClusterReview): object {
  return {
    kind: 'ClusterReview',
    summary: summaryOf(policies),
    notes,
    policies: policies.map(({ violators, incomplete, ...policy }) => ({
      ...policy,
      objects: violators.length,
      violations: violationsOf(violators),
      incomplete,
    })),
    results: policies.flatMap(({ name: policy, violators }) =>
      violators.map((violator) => ({
        object: identityOf(violator),
        policy,
        violations: violator.violations.map(({ check, field, message }) => ({ check, field, message })),
      })),
    ),
  };
}

export function clusterJunit({ policies }: ClusterReview): readonly JunitSuite[] {
  return policies.map((review) => ({ name: `AdmissionPolicy ${review.name}`, cases: casesOf(review) }));
}

function casesOf({ name: policy, checked, violators, incomplete }: PolicyReview): readonly JunitCase[] {
  const base = { className: policy, output: [] };
  return [
    ...violators.map((violator) => {
      const lines = linesOf(violator);
      const failure = { message: lines.join('; '), details: lines.join('\n') };
      return { ...base, name: describeIdentity(identityOf(violator)), failure };
    }),
    {
      ...base,
      name: `${counted(checked - violators.length, 'object')} without violations`,
      ...(incomplete === undefined ? {} : { error: printable(incomplete) }),
    },
  ];
}

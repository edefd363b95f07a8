/** Reads stored objects live from the API server, without any cache of this replica. */
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import {
  keyOf,
  type GroupResource,
  type KubeObject,
  type ObjectRef,
  groupResourceName,
  toTimestamp,
} from '../../json/kube-object.ts';
import { namespaces } from '../../kube/well-known.ts';
import { isSecret } from '../../admission/policy/object-ref.ts';
import { missingAccessMessage, namesSecrets } from './read-access.ts';
import { type NamespaceLabels, isInScope } from '../../admission/policy/match/object-scope.ts';
import { isCovered, placesOf, type Namespaces } from '../namespaces.ts';
import { served } from './world.ts';
import { auditObject, forAudit } from '../../admission/policy/audit.ts';
import type { Violation } from '../../admission/policy/violation.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import type { AuditWorld } from '../../admission/policy/world.ts';
import type { AdmissionPolicyStatus } from '../../api/admission-policy.ts';
import { messageOf } from '../../json/abort.ts';
import { backgroundTurns } from '../../server/limits/turns.ts';
import { governed } from './policy-kinds.ts';

export type StoredObjects = ReturnType<typeof storedObjects>;

export type StoredKind = GroupResource & { readonly version?: string };

/** @param ownNamespace which no policy governs; undefined for a command, which reads what its user may read */
export function storedObjects(
  client: Pick<KubeClient, 'get' | 'list' | 'pages' | 'listAll'>,
  discovery: Pick<Discovery, 'resolve'>,
  ownNamespace?: string,
  covered?: Namespaces,
) {
  return {
    pages: async function* (
      resource: StoredKind,
      signal: AbortSignal,
    ): AsyncGenerator<readonly KubeObject[], void, undefined> {
      const kind = await served(discovery, resource, signal);
      const { version = kind.version } = resource;
      if (ownNamespace !== undefined && isSecret(kind) && !(await namesSecrets(client, signal)))
        throw new Error(missingAccessMessage('secrets', [kind]));
      for (const namespace of placesOf(kind, covered))
        for await (const page of client.pages({ ...kind, version }, { namespace, resume: true, signal }))
          yield page.items.filter(
            ({ metadata }) => ownNamespace === undefined || metadata?.namespace !== ownNamespace,
          );
    },
    keys: async (resource: GroupResource, signal: AbortSignal): Promise<ReadonlySet<string>> => {
      const kind = await served(discovery, resource, signal);
      const keys = new Set<string>();
      for (const namespace of placesOf(kind, covered)) {
        const options = { namespace, metadataOnly: true, resume: true, signal };
        for await (const { items } of client.pages(kind, options))
          for (const item of items) keys.add(keyOf(item));
      }
      return keys;
    },
    /** Whether `keys` would list it. */
    lists: ({ namespace }: ObjectRef): boolean => isCovered(covered, namespace),
    count: async (resource: GroupResource, signal: AbortSignal): Promise<number | undefined> => {
      const kind = await served(discovery, resource, signal);
      const counts = await Promise.all(
        placesOf(kind, covered).map(async (namespace) => {
          const options = { namespace, limit: 1, metadataOnly: true, signal };
          const { items, metadata } = await client.list(kind, options);
          if (!metadata.continue) return items.length;
          return metadata.remainingItemCount && items.length + metadata.remainingItemCount;
        }),
      );
      return sumOf(counts);
    },
    read: async (ref: ObjectRef & StoredKind, signal: AbortSignal): Promise<KubeObject | undefined> => {
      const kind = await served(discovery, ref, signal);
      const { version = kind.version } = ref;
      return await client.get({ ...kind, version }, ref, { signal });
    },
    namespaceLabels: async (signal: AbortSignal): Promise<NamespaceLabels> => {
      const { items } = await client.listAll(namespaces, { metadataOnly: true, signal });
      return new Map(items.map(({ metadata }) => [metadata?.name ?? '', metadata?.labels ?? {}]));
    },
  };
}

/** Undefined if one of them is unknown. */
export const sumOf = (counts: readonly (number | undefined)[]): number | undefined =>
  counts.reduce((sum, one) => (sum === undefined || one === undefined ? undefined : sum + one), 0);

export type AuditResult = NonNullable<AdmissionPolicyStatus['violations']>;

export interface AuditSources {
  readonly stored: Pick<StoredObjects, 'pages' | 'namespaceLabels'>;
  readonly world: AuditWorld;
  readonly now: () => Date;
}

export interface Violator {
  readonly resource: GroupResource;
  readonly object: KubeObject;
  readonly violations: readonly Violation[];
}

/** @throws the reason of `signal` on abort, and when the namespaces cannot be read */
export async function scanStored(
  inForce: CompiledPolicy,
  { stored, world, now }: AuditSources,
  onViolator: (violator: Violator) => void,
  signal: AbortSignal,
): Promise<AuditResult> {
  const policy = forAudit(inForce);
  const namespaces = await stored.namespaceLabels(signal);
  const circumstances = { world, signal, turns: backgroundTurns };
  let total = 0;
  let objects = 0;
  let checked = 0;
  const byReference = new Map(inForce.references.map(({ name }) => [name, 0]));
  const problems = await eachPage(
    stored,
    [inForce],
    async (page, resource) => {
      for (const object of page.filter((one) => isInScope(policy, one, namespaces))) {
        checked += 1;
        const time = now().getTime(); // an exception may expire during a long audit
        const audited = await auditObject(policy, resource, object, { ...circumstances, now: time });
        if (audited.kind === 'unknown') throw audited.cause;
        const violations = withoutGrace(audited.violations, inForce, object, time);
        if (violations.length === 0) continue;
        total += violations.length;
        for (const { check = '', deferrable = 'references' } of violations) {
          const before = byReference.get(check);
          // A rule may have the name of a reference.
          if (before !== undefined && deferrable === 'references') byReference.set(check, before + 1);
        }
        objects += 1;
        onViolator({ resource, object, violations });
      }
    },
    signal,
  );
  const checkedAt = toTimestamp(now());
  const { generation } = inForce;
  const message =
    problems.length === 0 ? {} : { message: `could not check ${problems.join('; ')}`.slice(0, 1024) };
  const counts = byReference.size === 0 ? {} : { byReference: Object.fromEntries(byReference) };
  return { total, objects, checked, checkedAt, generation, ...counts, ...message };
}

/** Leaves out the references of an object within its grace period: their targets may still be created. */
function withoutGrace(
  violations: readonly Violation[],
  { initiallyDeferred, references }: CompiledPolicy,
  { metadata }: KubeObject,
  now: number,
): readonly Violation[] {
  if (initiallyDeferred === undefined) return violations;
  const createdAt = new Date(metadata?.creationTimestamp ?? 0).getTime();
  if (now - createdAt >= initiallyDeferred.graceMs) return violations;
  return violations.filter(({ check }) => !references.some(({ name }) => name === check));
}

export function governedKinds(policy: Pick<CompiledPolicy, 'match'>): readonly StoredKind[] {
  const [version] = policy.match.apiVersions;
  return governed(policy).map((kind) =>
    version === undefined || version === '*' ? kind : { ...kind, version },
  );
}

/** Each governed kind in each version that policies match, with the policies that govern it there. */
export function byKind(
  policies: readonly CompiledPolicy[],
): readonly (readonly [StoredKind, readonly CompiledPolicy[]])[] {
  const pairs = policies.flatMap((policy) => governedKinds(policy).map((kind) => ({ kind, policy })));
  const nameOf = ({ kind }: { readonly kind: StoredKind }) =>
    `${groupResourceName(kind)} ${kind.version ?? ''}`;
  return [...Map.groupBy(pairs, nameOf).values()].flatMap((same) =>
    same.slice(0, 1).map(({ kind }) => [kind, [...new Set(same.map(({ policy }) => policy))]] as const),
  );
}

/** @returns the kinds that could not be read, with the reason */
export async function eachPage(
  { pages }: Pick<StoredObjects, 'pages'>,
  policies: readonly CompiledPolicy[],
  visit: (
    page: readonly KubeObject[],
    resource: StoredKind,
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

/** With the version of the kind, in which the object is read. */
export function storedRef(kind: StoredKind, { metadata }: KubeObject): ObjectRef & StoredKind {
  return { ...kind, name: metadata?.name ?? '', namespace: metadata?.namespace };
}

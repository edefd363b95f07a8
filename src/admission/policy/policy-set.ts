import type { CompiledPolicy } from './compiled-policy.ts';
import { deletionEntriesOf, isDeletionEntry } from '../webhooks/policy-entries.ts';
import { hasWildcard, patternsFor } from './match/resource-pattern.ts';
import type { AdmissionRequest } from '../review/request.ts';

type Selection =
  | { readonly kind: 'governed'; readonly policies: readonly CompiledPolicy[] }
  /** No policy here has this webhook entry: the webhook configuration is newer or older than this replica. */
  | { readonly kind: 'unknown-entry' }
  /** The entry is known, but none of its policies governs the request. */
  | { readonly kind: 'ungoverned' };

export interface PolicySet {
  /** Sorted by name. The cost does not depend on the number of policies. */
  readonly select: (
    entryId: string,
    request: Pick<AdmissionRequest, 'resource' | 'subResource' | 'operation'>,
  ) => Selection;
}

interface ByPattern {
  readonly lists: ReadonlyMap<string, readonly CompiledPolicy[]>;
  /** Without wildcards, one lookup is enough. */
  readonly hasWildcards: boolean;
}

export function buildPolicySet(policies: readonly CompiledPolicy[]): PolicySet {
  const rows = [...policies].sort(byName).flatMap(rowsOf);
  // Nested, because a combined key would allocate a string for each request.
  const entries = grouped(rows, 'entryId', (ofEntry) =>
    grouped(ofEntry, 'group', (ofGroup) => grouped(ofGroup, 'operation', toByPattern)),
  );
  return {
    select: (entryId, { resource: { group, version, resource }, subResource, operation }) => {
      const index = entries.get(entryId);
      if (index === undefined) return UNKNOWN_ENTRY;
      const byPattern = index.get(group)?.get(operation);
      const found = byPattern === undefined ? [] : find(byPattern, resource, subResource);
      // A target can be deleted through any version: the policy's versions select the referencing objects.
      const governing =
        isDeletionEntry(entryId) || found.every((policy) => namesVersion(policy, version))
          ? found
          : found.filter((policy) => namesVersion(policy, version));
      return governing.length === 0 ? UNGOVERNED : { kind: 'governed', policies: governing };
    },
  };
}

const UNKNOWN_ENTRY: Selection = { kind: 'unknown-entry' };
const UNGOVERNED: Selection = { kind: 'ungoverned' };

interface Row extends Record<'entryId' | 'group' | 'operation' | 'pattern', string> {
  readonly policy: CompiledPolicy;
}

function rowsOf(policy: CompiledPolicy): readonly Row[] {
  return [policy, ...deletionEntriesOf(policy)].flatMap(({ entryId, match }) =>
    match.apiGroups.flatMap((group) =>
      match.operations.flatMap((operation) =>
        match.resources.map((pattern) => ({ entryId, group, operation, pattern, policy })),
      ),
    ),
  );
}

function grouped<Value>(
  rows: readonly Row[],
  key: Exclude<keyof Row, 'policy'>,
  make: (rows: readonly Row[]) => Value,
): ReadonlyMap<string, Value> {
  return new Map([...Map.groupBy(rows, (row) => row[key])].map(([name, some]) => [name, make(some)]));
}

const toByPattern = (rows: readonly Row[]): ByPattern => ({
  lists: grouped(rows, 'pattern', (some) => some.map(({ policy }) => policy)),
  hasWildcards: rows.some(({ pattern }) => hasWildcard(pattern)),
});

function find(
  { lists, hasWildcards }: ByPattern,
  resource: string,
  subResource: string,
): readonly CompiledPolicy[] {
  if (!hasWildcards) return lists.get(subResource === '' ? resource : `${resource}/${subResource}`) ?? [];
  const found = patternsFor(resource, subResource).flatMap((pattern) => lists.get(pattern) ?? []);
  return [...new Set(found)].sort(byName);
}

function namesVersion({ match: { apiVersions } }: CompiledPolicy, version: string): boolean {
  return apiVersions.includes(version) || apiVersions.includes('*');
}

function byName(a: CompiledPolicy, b: CompiledPolicy): number {
  return a.name < b.name ? -1 : 1;
}

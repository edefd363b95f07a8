import type { CompiledMatch, CompiledPolicy } from './compiled-policy.ts';
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
  /**
   * The policies, sorted by name, that govern a request from this entry. The cost does not depend on the number of
   * policies.
   */
  readonly select: (
    entryId: string,
    request: Pick<AdmissionRequest, 'resource' | 'subResource' | 'operation'>,
  ) => Selection;
}

/** The policies of one entry for one group and operation. */
interface ByPattern {
  readonly lists: Map<string, CompiledPolicy[]>;
  /** Whether any pattern has a wildcard. Without wildcards, one lookup is enough. */
  hasWildcards: boolean;
}

/**
 * Group → operation → resource pattern → policies. Nested, because a combined key would allocate a string for each
 * request.
 */
type Index = Map<string, Map<string, ByPattern>>;

export function buildPolicySet(policies: readonly CompiledPolicy[]): PolicySet {
  const entries = new Map<string, Index>();
  for (const policy of [...policies].sort(byName)) {
    for (const { entryId, match } of [policy, ...deletionEntriesOf(policy)]) {
      addTo(
        emplace(entries, entryId, () => new Map<string, Map<string, ByPattern>>()),
        policy,
        match,
      );
    }
  }
  return {
    select: (entryId, { resource: { group, version, resource }, subResource, operation }) => {
      const index = entries.get(entryId);
      if (index === undefined) return UNKNOWN_ENTRY;
      const byPattern = index.get(group)?.get(operation);
      const found = byPattern === undefined ? [] : find(byPattern, resource, subResource);
      // A target can be deleted through any version: the versions of the policy select the objects that hold the
      // references.
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

function addTo(index: Index, policy: CompiledPolicy, match: CompiledMatch): void {
  for (const group of match.apiGroups) {
    const byOperation = emplace(index, group, () => new Map<string, ByPattern>());
    for (const operation of match.operations) {
      const byPattern = emplace(byOperation, operation, (): ByPattern => ({
        lists: new Map(),
        hasWildcards: false,
      }));
      for (const pattern of match.resources) {
        emplace(byPattern.lists, pattern, (): CompiledPolicy[] => []).push(policy);
        byPattern.hasWildcards ||= hasWildcard(pattern);
      }
    }
  }
}

function find(
  { lists, hasWildcards }: ByPattern,
  resource: string,
  subResource: string,
): readonly CompiledPolicy[] {
  if (!hasWildcards) return lists.get(subResource === '' ? resource : `${resource}/${subResource}`) ?? [];
  const found = patternsFor(resource, subResource).flatMap((pattern) => lists.get(pattern) ?? []);
  return [...new Set(found)].sort(byName);
}

function emplace<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  const there = map.get(key);
  if (there !== undefined) return there;
  const made = make();
  map.set(key, made);
  return made;
}

function namesVersion({ match: { apiVersions } }: CompiledPolicy, version: string): boolean {
  return apiVersions.includes(version) || apiVersions.includes('*');
}

function byName(a: CompiledPolicy, b: CompiledPolicy): number {
  return a.name < b.name ? -1 : 1;
}

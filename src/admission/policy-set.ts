import type { CompiledMatch, CompiledPolicy } from './compiled-policy.ts';
import { guardsOf, isGuardEntry } from './guard-entries.ts';
import { patternsFor } from './resource-pattern.ts';
import type { AdmissionRequest } from './request.ts';

type Selection =
  | { readonly kind: 'governed'; readonly policies: readonly CompiledPolicy[] }
  /** A webhook entry that no policy here has: a newer configuration than this replica knows, or an older one. */
  | { readonly kind: 'unknown-entry' }
  /** The entry is known, but none of its policies is about such a request. */
  | { readonly kind: 'ungoverned' };

export interface PolicySet {
  /** The policies that govern a request which came in by this entry, by name. Costs the same however many policies there are. */
  readonly select: (
    entryId: string,
    request: Pick<AdmissionRequest, 'resource' | 'subResource' | 'operation'>,
  ) => Selection;
}

type ByPattern = Map<string, CompiledPolicy[]>;
/** `group operation` → pattern of resources → policies. */
type Index = Map<string, ByPattern>;

export function buildPolicySet(policies: readonly CompiledPolicy[]): PolicySet {
  const entries = new Map<string, Index>();
  for (const policy of [...policies].sort(byName)) {
    for (const { entryId, match } of [policy, ...guardsOf(policy)]) {
      const index: Index = entries.get(entryId) ?? new Map<string, ByPattern>();
      entries.set(entryId, index);
      for (const key of keysOf(match)) {
        const byPattern: ByPattern = index.get(key) ?? new Map<string, CompiledPolicy[]>();
        index.set(key, byPattern);
        for (const pattern of match.resources) {
          const listed = byPattern.get(pattern);
          if (listed === undefined) byPattern.set(pattern, [policy]);
          else listed.push(policy);
        }
      }
    }
  }
  return {
    select: (entryId, { resource, subResource, operation }) => {
      const index = entries.get(entryId);
      if (index === undefined) return { kind: 'unknown-entry' };
      const byPattern = index.get(keyOf(resource.group, operation));
      if (byPattern === undefined) return { kind: 'ungoverned' };
      const lists = patternsFor(resource.resource, subResource)
        .map((pattern) => byPattern.get(pattern))
        .filter((list) => list !== undefined);
      const [first = []] = lists;
      const found = lists.length > 1 ? [...new Set(lists.flat())].sort(byName) : first;
      // Targets are deleted in any version: those of the policy are about the objects that refer to them.
      const governing = isGuardEntry(entryId)
        ? found
        : found.filter(({ match }) => namesVersion(match.apiVersions, resource.version));
      return governing.length === 0 ? { kind: 'ungoverned' } : { kind: 'governed', policies: governing };
    },
  };
}

function keysOf({ apiGroups, operations }: CompiledMatch): readonly string[] {
  return apiGroups.flatMap((group) => operations.map((operation) => keyOf(group, operation)));
}

function keyOf(group: string, operation: string): string {
  return `${group} ${operation}`;
}

function namesVersion(versions: readonly string[], version: string): boolean {
  return versions.includes('*') || versions.includes(version);
}

function byName(a: CompiledPolicy, b: CompiledPolicy): number {
  return a.name < b.name ? -1 : 1;
}

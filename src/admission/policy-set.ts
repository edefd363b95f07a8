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

/** `group/pattern operation` → policies. */
type Index = Map<string, CompiledPolicy[]>;

export function buildPolicySet(policies: readonly CompiledPolicy[]): PolicySet {
  const entries = new Map<string, Index>();
  for (const policy of [...policies].sort(byName)) {
    for (const { entryId, match } of [policy, ...guardsOf(policy)]) {
      const index = entries.get(entryId) ?? new Map<string, CompiledPolicy[]>();
      entries.set(entryId, index);
      for (const key of keysOf(match)) {
        const listed = index.get(key);
        if (listed === undefined) index.set(key, [policy]);
        else listed.push(policy);
      }
    }
  }
  return {
    select: (entryId, { resource, subResource, operation }) => {
      const index = entries.get(entryId);
      if (index === undefined) return { kind: 'unknown-entry' };
      const lists = patternsFor(resource.resource, subResource)
        .map((pattern) => index.get(keyOf(resource.group, pattern, operation)))
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

function keysOf(match: CompiledMatch): readonly string[] {
  return match.apiGroups.flatMap((group) =>
    match.resources.flatMap((pattern) =>
      match.operations.map((operation) => keyOf(group, pattern, operation)),
    ),
  );
}

function keyOf(group: string, pattern: string, operation: string): string {
  return `${group}/${pattern} ${operation}`;
}

function namesVersion(versions: readonly string[], version: string): boolean {
  return versions.includes('*') || versions.includes(version);
}

function byName(a: CompiledPolicy, b: CompiledPolicy): number {
  return a.name < b.name ? -1 : 1;
}

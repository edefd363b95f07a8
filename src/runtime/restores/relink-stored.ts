/** Every stored object whose owners are preserved, and that a restore has made without them. */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { isInScope, type NamespaceLabels } from '../../admission/policy/match/object-scope.ts';
import { groupResourceName, type GroupResource, type KubeObject } from '../../api/meta.ts';
import type { RelinkItem } from '../../api/restore-findings.ts';
import { governed } from '../policies/policies.ts';
import type { Relink, RelinkOptions } from './relink.ts';

export interface RelinkStoredDeps {
  readonly policies: () => readonly CompiledPolicy[];
  /** Every object of a kind, page by page, straight from storage. Throws when the kind cannot be read. */
  readonly pages: (resource: GroupResource, signal: AbortSignal) => AsyncIterable<readonly KubeObject[]>;
  readonly namespaceLabels: (signal: AbortSignal) => Promise<NamespaceLabels>;
  readonly relink: Relink;
}

export interface RelinkedStored {
  readonly items: readonly RelinkItem[];
  /** Kinds that could not be read, each with the reason. */
  readonly unreadable: readonly string[];
}

/** Objects that are linked at a time: each is three requests, one after the other. */
const AT_ONCE = 16;

/** @throws the reason of `signal` on abort, and when the namespaces cannot be read */
export async function relinkStored(
  deps: RelinkStoredDeps,
  options: RelinkOptions,
  signal: AbortSignal,
): Promise<RelinkedStored> {
  const kinds = kindsOf(deps.policies());
  const items: RelinkItem[] = [];
  const unreadable: string[] = [];
  if (kinds.length === 0) return { items, unreadable };
  const namespaces = await deps.namespaceLabels(signal);
  for (const { resource, policies } of kinds) {
    try {
      for await (const page of deps.pages(resource, signal)) {
        const inScope = page.filter((object) =>
          policies.some((policy) => isInScope(policy, object, namespaces)),
        );
        for (let start = 0; start < inScope.length; start += AT_ONCE) {
          const batch = inScope.slice(start, start + AT_ONCE);
          const results = await Promise.all(
            batch.map((object) => deps.relink(resource, object, options, signal)),
          );
          for (const result of results) items.push(...result);
        }
      }
    } catch (error) {
      signal.throwIfAborted();
      unreadable.push(
        `${groupResourceName(resource)}: ${error instanceof Error ? error.message : String(error)}`,
      );
    }
  }
  return { items, unreadable };
}

interface PreservedKind {
  readonly resource: GroupResource;
  readonly policies: readonly CompiledPolicy[];
}

function kindsOf(policies: readonly CompiledPolicy[]): readonly PreservedKind[] {
  const pairs = policies
    .filter(({ preservesOwners }) => preservesOwners)
    .flatMap((policy) => governed(policy).map((resource) => ({ resource, policy })));
  const byKind = Map.groupBy(pairs, ({ resource }) => groupResourceName(resource));
  return [...byKind.values()].flatMap((same) => {
    const [first] = same;
    return first === undefined
      ? []
      : [{ resource: first.resource, policies: same.map(({ policy }) => policy) }];
  });
}

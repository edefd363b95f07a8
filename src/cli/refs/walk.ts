/** What one object refers to, and what refers to it, as a tree. */
import { targetKey } from '../../admission/policy/object-ref.ts';
import type { ObjectRef } from '../../json/kube-object.ts';
import type { Link, RefsGraph } from './graph.ts';

export type Direction = 'refersTo' | 'referredBy';

export interface Branch {
  readonly object: ObjectRef;
  /** The fields that connect it with the object above. */
  readonly links: readonly Link[];
  /**
   * `missing`: it does not exist; `former`: it does not exist, and another object has its name; `unknown`: it may not be
   * read.
   */
  readonly state: 'exists' | 'missing' | 'former' | 'unknown';
  /** The fields name an earlier object, with another uid than the object that has the name now. */
  readonly isFormer: boolean;
  /** Why there is nothing below, although there may be: it is above in the tree, or the tree ends at this depth. */
  readonly end: 'cycle' | 'depth' | undefined;
  readonly below: readonly Branch[];
}

export interface Tree {
  readonly object: ObjectRef;
  readonly refersTo: readonly Branch[];
  readonly referredBy: readonly Branch[];
  /** The kinds that could not be read, or only in one namespace. */
  readonly gaps: RefsGraph['gaps'];
}

/** No more objects are shown, so that a wide graph ends. */
export const MOST_BRANCHES = 10_000;

/** @param depth of the tree in both directions, at least 1 */
export function walk(graph: RefsGraph, object: ObjectRef, depth: number): Tree & { readonly cut: boolean } {
  const budget = { left: MOST_BRANCHES };
  const inDirection = (direction: Direction) =>
    branches(graph, direction, object, [targetKey(object)], depth, budget);
  const refersTo = inDirection('refersTo');
  const referredBy = inDirection('referredBy');
  return { object, refersTo, referredBy, gaps: graph.gaps, cut: budget.left < 0 };
}

/** By kind, namespace, name and field. */
const bySource = (left: Link, right: Link): number =>
  compareText(targetKey(left.from), targetKey(right.from)) || compareText(left.field, right.field);

const compareText = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0);

function branches(
  graph: RefsGraph,
  direction: Direction,
  object: ObjectRef,
  above: readonly string[],
  depth: number,
  budget: { left: number },
): readonly Branch[] {
  const links = direction === 'refersTo' ? graph.from(object) : graph.to(object).toSorted(bySource);
  const otherOf = ({ from, to }: Link): ObjectRef => (direction === 'refersTo' ? to : from);
  const byObject = Map.groupBy(links, (link) =>
    JSON.stringify([targetKey(otherOf(link)), graph.isFormer(link) ? link.uid : null]),
  );
  return [...byObject.values()].flatMap((same) => {
    const [first] = same;
    budget.left -= 1;
    if (first === undefined || budget.left < 0) return [];
    const other = otherOf(first);
    const key = targetKey(other);
    const isFormer = graph.isFormer(first);
    const exists = graph.exists(other);
    const named = exists === undefined ? 'unknown' : exists ? 'exists' : 'missing';
    const state = isFormer && direction === 'refersTo' ? 'former' : named;
    // What the object with this name refers to now is no matter of the former one.
    const hasMore = !isFormer && (direction === 'refersTo' ? graph.from(other) : graph.to(other)).length > 0;
    const end = !isFormer && above.includes(key) ? 'cycle' : depth <= 1 && hasMore ? 'depth' : undefined;
    const below =
      end === undefined && hasMore
        ? branches(graph, direction, other, [...above, key], depth - 1, budget)
        : [];
    return [{ object: other, links: same, state, isFormer, end, below }];
  });
}

/** Which sources of CA bundles are watched: each costs a watch, and every user who may write a ConfigMap can name one. */
import { sourceName, type SourceRef } from './request.ts';

/** A target names a source. */
export interface SourceDemand {
  /** Of the target; undefined: it is cluster-scoped. */
  readonly namespace: string | undefined;
  readonly ref: SourceRef;
}

/** Cluster-scoped targets have a share of their own: only administrators create them. */
const MAX_OF_CLUSTER = 200;
const MAX_OF_NAMESPACES = 200;
const MAX_OF_NAMESPACE = 10;

export const OVER_QUOTA =
  `is not read: the targets of a namespace may name ${MAX_OF_NAMESPACE} sources, ` +
  `those of all namespaces ${MAX_OF_NAMESPACES}, and cluster-scoped ones ${MAX_OF_CLUSTER}; let targets share a source`;

/**
 * The sources to watch, by name. Every namespace gets one before any gets a second one. Otherwise those that are
 * watched already stay.
 */
export function admitSources(
  demands: readonly SourceDemand[],
  isWatched: (name: string) => boolean,
): ReadonlyMap<string, SourceRef> {
  const admitted = new Map<string, SourceRef>();
  const inOrder = (refs: readonly SourceRef[]) =>
    [...new Map(refs.map((ref) => [sourceName(ref), ref]))].sort(
      ([a], [b]) => Number(isWatched(b)) - Number(isWatched(a)) || (a < b ? -1 : 1),
    );
  const byNamespace = Map.groupBy(demands, ({ namespace }) => namespace);
  const refsOf = (namespace: string | undefined) =>
    inOrder((byNamespace.get(namespace) ?? []).map(({ ref }) => ref));

  for (const [name, ref] of refsOf(undefined).slice(0, MAX_OF_CLUSTER)) admitted.set(name, ref);
  const most = admitted.size + MAX_OF_NAMESPACES;
  const namespaces = [...byNamespace.keys()].filter((namespace) => namespace !== undefined).map(refsOf);
  for (let round = 0; round < MAX_OF_NAMESPACE; round++) {
    const wanted = new Map(inOrder(namespaces.flatMap((refs) => refs[round]?.[1] ?? [])));
    for (const [name, ref] of wanted) if (admitted.has(name) || admitted.size < most) admitted.set(name, ref);
  }
  return admitted;
}

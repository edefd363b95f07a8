import type { KubeObject } from '../../../json/kube-object.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import { matchesSelector } from '../../../json/label-selector.ts';

/** The labels of each namespace, by its name. */
export type NamespaceLabels = ReadonlyMap<string, Readonly<Record<string, string>>>;

/**
 * Whether a stored object is one of those that the policy selects, as the API server would at a request.
 *
 * `matchConditions` are not evaluated here: what they leave out of admission is looked at all the same.
 */
export function isInScope(
  { match }: Pick<CompiledPolicy, 'match'>,
  { metadata }: KubeObject,
  namespaces: NamespaceLabels,
): boolean {
  const namespaceLabels =
    metadata?.namespace === undefined ? undefined : (namespaces.get(metadata.namespace) ?? {});
  return (
    matchesSelector(match.objectSelector, metadata?.labels ?? {}) &&
    // A namespaceSelector never leaves out cluster-scoped objects, as in the API server.
    (namespaceLabels === undefined || matchesSelector(match.namespaceSelector, namespaceLabels))
  );
}

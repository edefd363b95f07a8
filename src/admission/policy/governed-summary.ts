import { type GroupResource, groupResourceName, type KubeObject, refOf } from '../../json/kube-object.ts';
import { isJsonObject, memoizeWeak } from '../../json/json.ts';
import { hasDeletionTimestamp } from './object-metadata.ts';
import type { CompiledPolicy } from './compiled-policy.ts';
import { matchesSelector } from '../../json/label-selector.ts';
import { deletionReferences, referencesOf } from './references/read-references.ts';
import { targetKey } from './object-ref.ts';
import { heldKeys } from './unique/unique-key.ts';

/** What replicas cache of a governed object. */
export interface GovernedSummary {
  /** Results of `targetKey`, without duplicates. */
  readonly targets: readonly string[];
  /** Names of UniqueClaims, without duplicates. */
  readonly claims: readonly string[];
}

/** @param policies those that govern its kind; evaluates their object selectors */
export function summarise(
  policies: readonly CompiledPolicy[],
  kind: GroupResource,
  object: KubeObject,
): GovernedSummary {
  const { namespace, labels = {} } = object.metadata ?? {};
  if (!isJsonObject(object)) return { targets: [], claims: [] };
  const self = refOf(kind, object);
  const selecting = policies.filter(({ match }) => matchesSelector(match.objectSelector, labels));
  const holdsOn = hasDeletionTimestamp(object) ? [] : selecting;
  const targets = holdsOn.flatMap((policy) =>
    referencesOf({ references: deletionReferences(policy.references) }, object, namespace).map(({ target }) =>
      targetKey(target),
    ),
  );
  const claims = selecting.flatMap((policy) => heldKeys(policy, object, self).map(({ claim }) => claim));
  return { targets: [...new Set(targets)], claims: [...new Set(claims)] };
}

export const needsSummary = ({
  unique,
  references,
}: Pick<CompiledPolicy, 'unique' | 'references'>): boolean =>
  unique.length > 0 || deletionReferences(references).length > 0;

/** While the key is unchanged, existing summaries remain valid. */
export const summaryKey = memoizeWeak(({ name, match, unique, references }: CompiledPolicy): string => {
  const { objectSelector, apiGroups, apiVersions, resources } = match;
  const named = deletionReferences(references).map(({ path, namespacePath, target, namespaced }) => [
    path.text,
    namespacePath?.text ?? null,
    groupResourceName(target),
    namespaced,
  ]);
  const held = unique.map((rule) => [rule.name, rule.scope, rule.paths.map(({ text }) => text)]);
  return JSON.stringify([name, apiGroups, apiVersions, resources, objectSelector, named, held]);
});

import { groupResourceName, type GroupResource, type KubeObject } from '../../json/kube-object.ts';
import { isBeingDeleted } from './object-metadata.ts';
import type { CompiledPolicy } from './compiled-policy.ts';

import { isJsonObject } from '../../json/json.ts';
import { matchesSelector } from '../../json/label-selector.ts';
import { referencesOf, restrictingReferences } from './references/read-references.ts';
import { targetKey } from './object-ref.ts';
import { heldKeys } from './unique/unique-key.ts';

/** What replicas keep of a governed object: whom it holds on to, and which keys it holds. */
export interface GovernedSummary {
  /** As `targetKey` spells targets, each once. */
  readonly targets: readonly string[];
  /** The names of UniqueClaims, each once. */
  readonly claims: readonly string[];
}

/** The sketch of a stored object, by those of the policies that govern its kind. */
export function summarise(
  policies: readonly CompiledPolicy[],
  { group, resource }: GroupResource,
  object: KubeObject,
): GovernedSummary {
  const { name = '', namespace, labels = {} } = object.metadata ?? {};
  if (!isJsonObject(object)) return { targets: [], claims: [] };
  const self = { group, resource, namespace, name };
  const selecting = policies.filter(({ match }) => matchesSelector(match.objectSelector, labels));
  const holdsOn = isBeingDeleted(object) ? [] : selecting;
  const targets = holdsOn.flatMap((policy) =>
    referencesOf({ references: restrictingReferences(policy.references) }, object, namespace).map(
      ({ target }) => targetKey(target),
    ),
  );
  const claims = selecting.flatMap((policy) => heldKeys(policy, object, self).map(({ claim }) => claim));
  return { targets: [...new Set(targets)], claims: [...new Set(claims)] };
}

/** Whether it has to be known what the objects of this policy name or hold. */
export const needsSummary = ({
  unique,
  references,
}: Pick<CompiledPolicy, 'unique' | 'references'>): boolean =>
  unique.length > 0 || restrictingReferences(references).length > 0;

/** All of a policy that decides how sketches look: where it is the same, so are they. */
export function summaryKey(policy: CompiledPolicy): string {
  const before = known.get(policy);
  if (before !== undefined) return before;
  const { name, match, unique, references } = policy;
  const { objectSelector, apiGroups, apiVersions, resources } = match;
  const named = restrictingReferences(references).map(({ path, namespacePath, target, namespaced }) => [
    path.text,
    namespacePath?.text ?? null,
    groupResourceName(target),
    namespaced,
  ]);
  const held = unique.map((rule) => [rule.name, rule.scope, rule.paths.map(({ text }) => text)]);
  const needs = JSON.stringify([name, apiGroups, apiVersions, resources, objectSelector, named, held]);
  known.set(policy, needs);
  return needs;
}

const known = new WeakMap<CompiledPolicy, string>();

import { coversPath, includesOrAll, type PolicyRule } from './policy-rule.ts';

/**
 * The permissions in `wanted` but not in `held`, split into rules with one verb and one resource or path.
 * @see k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go
 */
export function missingRules(
  held: readonly PolicyRule[],
  wanted: readonly PolicyRule[],
): readonly PolicyRule[] {
  return wanted.flatMap(breakDown).filter((atom) => !held.some((rule) => covers(rule, atom)));
}

/** The rules of {@link missingRules} as sorted text lines; verbs on the same resource share a line. */
export function describeRules(atoms: readonly PolicyRule[]): readonly string[] {
  const byThing = Map.groupBy(atoms, (atom) => JSON.stringify({ ...atom, verbs: [] }));
  const lines = [...byThing.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    // The API server merges verbs only for resources.
    return first.nonResourceURLs.length > 0
      ? group.map(describe)
      : [describe({ ...first, verbs: group.flatMap(({ verbs }) => verbs) })];
  });
  return [...new Set(lines)].sort();
}

const NOTHING = { apiGroups: [], resources: [], resourceNames: [], nonResourceURLs: [] };

function breakDown(rule: PolicyRule): readonly PolicyRule[] {
  const names = rule.resourceNames.length === 0 ? [[]] : rule.resourceNames.map((name) => [name]);
  const resources = rule.apiGroups.flatMap((group) =>
    rule.resources.flatMap((resource) =>
      rule.verbs.flatMap((verb) =>
        names.map((resourceNames) => ({
          ...NOTHING,
          verbs: [verb],
          apiGroups: [group],
          resources: [resource],
          resourceNames,
        })),
      ),
    ),
  );
  const paths = rule.nonResourceURLs.flatMap((url) =>
    rule.verbs.map((verb) => ({ ...NOTHING, verbs: [verb], nonResourceURLs: [url] })),
  );
  return [...resources, ...paths];
}

function covers(held: PolicyRule, atom: PolicyRule): boolean {
  return (
    atom.verbs.every((verb) => includesOrAll(held.verbs, verb)) &&
    atom.apiGroups.every((group) => includesOrAll(held.apiGroups, group)) &&
    atom.resources.every((resource) => coversResource(held.resources, resource)) &&
    coversNames(held.resourceNames, atom.resourceNames) &&
    atom.nonResourceURLs.every((path) => held.nonResourceURLs.some((url) => coversPath(url, path)))
  );
}

function coversResource(held: readonly string[], resource: string): boolean {
  if (includesOrAll(held, resource)) return true;
  const slash = resource.indexOf('/');
  return slash !== -1 && held.includes(`*${resource.slice(slash)}`);
}

function coversNames(held: readonly string[], wanted: readonly string[]): boolean {
  return held.length === 0 || (wanted.length > 0 && wanted.every((name) => held.includes(name)));
}

function describe(rule: PolicyRule): string {
  const parts = [
    ['APIGroups', rule.apiGroups],
    ['Resources', rule.resources],
    ['NonResourceURLs', rule.nonResourceURLs],
    ['ResourceNames', rule.resourceNames],
    ['Verbs', rule.verbs],
  ] as const;
  const shown = parts.filter(([, values]) => values.length > 0);
  return `{${shown.map(([name, values]) => `${name}:${goList(values)}`).join(', ')}}`;
}

/** A list of strings as Go's `%q` prints it. */
export const goList = (values: readonly string[]) =>
  `[${values.map((value) => JSON.stringify(value)).join(' ')}]`;

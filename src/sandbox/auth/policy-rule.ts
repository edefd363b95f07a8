import { records, texts } from '../../machinery/fields.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import type { Attributes } from './attributes.ts';

/** A PolicyRule of rbac.authorization.k8s.io/v1; absent lists are empty. */
export interface PolicyRule {
  readonly verbs: readonly string[];
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames: readonly string[];
  readonly nonResourceURLs: readonly string[];
}

const parsed = new WeakMap<ApiObject, readonly PolicyRule[]>();

/** The rules of a Role or ClusterRole. */
export function rulesOf(role: ApiObject): readonly PolicyRule[] {
  const known = parsed.get(role);
  if (known !== undefined) return known;
  const rules = records(role, 'rules').map((rule) => ({
    verbs: texts(rule, 'verbs'),
    apiGroups: texts(rule, 'apiGroups'),
    resources: texts(rule, 'resources'),
    resourceNames: texts(rule, 'resourceNames'),
    nonResourceURLs: texts(rule, 'nonResourceURLs'),
  }));
  parsed.set(role, rules);
  return rules;
}

/** @see kubernetes/pkg/apis/rbac/v1/evaluation_helpers.go */
export function ruleAllows(rule: PolicyRule, attributes: Attributes): boolean {
  if (!includesOrAll(rule.verbs, attributes.verb)) return false;
  if (attributes.kind === 'path') {
    return rule.nonResourceURLs.some((url) => coversPath(url, attributes.path));
  }
  const { group, resource, subresource, name } = attributes;
  const names = subresource === '' ? [resource] : [`${resource}/${subresource}`, `*/${subresource}`];
  return (
    includesOrAll(rule.apiGroups, group) &&
    rule.resources.some((given) => given === '*' || names.includes(given)) &&
    (rule.resourceNames.length === 0 || rule.resourceNames.includes(name))
  );
}

/** Whether a nonResourceURL covers a path or another nonResourceURL: exactly, or up to its trailing stars. */
export function coversPath(url: string, path: string): boolean {
  return url === path || (url.endsWith('*') && path.startsWith(url.replace(/\*+$/, '')));
}

export const includesOrAll = (given: readonly string[], wanted: string) =>
  given.includes('*') || given.includes(wanted);

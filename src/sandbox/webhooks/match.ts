import { matchesSelector } from '../../admission/label-selector.ts';
import type { ApiObject } from '../api-object.ts';
import type { AdmissionAttributes, Api } from '../pipeline/context.ts';
import type { ResourceType } from '../resource-type.ts';
import type { Hook, Rule } from './hook.ts';

const NAMESPACES = { group: '', resource: 'namespaces' };

/** Objects that no webhook is asked about: a webhook that refuses its own configuration could never be mended. */
const EXEMPT = new Set([
  'mutatingwebhookconfigurations',
  'validatingwebhookconfigurations',
  'validatingadmissionpolicies',
  'validatingadmissionpolicybindings',
  'mutatingadmissionpolicies',
  'mutatingadmissionpolicybindings',
]);

export const isExempt = ({ group, resource }: ResourceType): boolean =>
  group === 'admissionregistration.k8s.io' && EXEMPT.has(resource);

/**
 * The version in which the webhook wants to see the object; undefined when it is not concerned. With the match policy
 * Equivalent a rule for another version of the resource counts, and that is the version.
 */
export function matchingType(
  hook: Hook,
  attributes: AdmissionAttributes,
  { registry, storage }: Pick<Api, 'registry' | 'storage'>,
): ResourceType | undefined {
  if (!selectsNamespace(hook, attributes, storage) || !selectsObject(hook, attributes)) return undefined;
  const { type } = attributes;
  const concerns = (candidate: ResourceType) =>
    hook.rules.some((rule) => ruleMatches(rule, attributes, candidate));
  if (concerns(type)) return type;
  if (hook.exact) return undefined;
  return registry
    .all()
    .find(
      (other) =>
        other.group === type.group &&
        other.resource === type.resource &&
        other.version !== type.version &&
        concerns(other),
    );
}

function ruleMatches(
  rule: Rule,
  { operation, subresource }: AdmissionAttributes,
  type: ResourceType,
): boolean {
  const has = (list: readonly string[], value: string) => list.includes('*') || list.includes(value);
  return (
    has(rule.operations, operation) &&
    has(rule.apiGroups, type.group) &&
    has(rule.apiVersions, type.version) &&
    scopeMatches(rule.scope, type) &&
    rule.resources.some((pattern) => resourceMatches(pattern, type.resource, subresource))
  );
}

/** A Namespace is cluster-scoped here although requests for it name a namespace. */
function scopeMatches(scope: string, { namespaced }: ResourceType): boolean {
  if (scope === 'Namespaced') return namespaced;
  return scope === 'Cluster' ? !namespaced : true;
}

function resourceMatches(pattern: string, resource: string, subresource: string): boolean {
  const [wantedResource = '', wantedSub = ''] = pattern.split('/', 2);
  return (
    (wantedResource === '*' || wantedResource === resource) &&
    (wantedSub === '*' || wantedSub === subresource)
  );
}

function selectsNamespace(
  { namespaceSelector }: Hook,
  { type, namespace, object, oldObject }: AdmissionAttributes,
  storage: Api['storage'],
): boolean {
  if (Object.keys(namespaceSelector).length === 0) return true;
  if (type.group === '' && type.resource === 'namespaces') {
    return matchesSelector(namespaceSelector, (object ?? oldObject)?.metadata.labels ?? {});
  }
  if (!type.namespaced) return true;
  const labels = storage.get(NAMESPACES, { namespace: '', name: namespace })?.metadata.labels ?? {};
  return matchesSelector(namespaceSelector, labels);
}

function selectsObject({ objectSelector }: Hook, { object, oldObject }: AdmissionAttributes): boolean {
  if (Object.keys(objectSelector).length === 0) return true;
  const selects = (candidate: ApiObject | undefined) =>
    candidate !== undefined && matchesSelector(objectSelector, candidate.metadata.labels ?? {});
  return selects(object) || selects(oldObject);
}

import { matchesSelector } from '../../json/label-selector.ts';
import type { ApiObject } from '../api-object.ts';
import { placeOf, type AdmissionAttributes, type Api } from '../pipeline/context.ts';
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
  const matches = (rule: Rule, candidate: ResourceType) => ruleMatches(rule, attributes, candidate);
  if (hook.rules.some((rule) => matches(rule, type))) return type;
  if (hook.exact) return undefined;
  const equivalents = registry.all().filter((other) => isEquivalent(other, type, attributes.subresource));
  // Of several rules the first decides, whatever versions it and the others name.
  for (const rule of hook.rules) {
    const found = equivalents.find((other) => matches(rule, other));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Whether the same objects are served as another type, as the other versions of a resource do and the Events of both groups. */
function isEquivalent(other: ResourceType, type: ResourceType, subresource: string): boolean {
  const [place, otherPlace] = [placeOf(type), placeOf(other)];
  const isSame = other.group === type.group && other.version === type.version;
  return (
    !isSame &&
    place.group === otherPlace.group &&
    place.resource === otherPlace.resource &&
    (subresource !== 'status' || other.hasStatus)
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

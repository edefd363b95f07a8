import { messageOf } from '../../json/abort.ts';
import { matchesSelector } from '../../json/label-selector.ts';
import { type ApiObject, toJson } from '../api-object.ts';
import type { ResourceRegistry, ResourceType } from '../resource-type.ts';
import { placeOf, type Storage } from '../storage/stored.ts';
import type { Hook, Rule } from './hook.ts';
import { forbidden, listed } from '../failure.ts';
import { admissionRequest, type AdmissionAttributes, type Question } from './admission-review.ts';

const NAMESPACES = { group: '', resource: 'namespaces' };

export const POLICY_RESOURCES = ['validating', 'mutating'].flatMap((manner) => [
  `${manner}admissionpolicies`,
  `${manner}admissionpolicybindings`,
]);

/** A webhook that denies changes to its own configuration could not be repaired. Reviews never reach admission here. */
const EXEMPT = ['mutatingwebhookconfigurations', 'validatingwebhookconfigurations', ...POLICY_RESOURCES];

export const isExempt = ({ group, resource }: ResourceType): boolean =>
  group === 'admissionregistration.k8s.io' && EXEMPT.includes(resource);

/** The reviews, by group: neither webhooks nor policies see them, so that a cluster can always authenticate. */
export const REVIEWS: Readonly<Record<string, readonly string[]>> = {
  'authentication.k8s.io': ['selfsubjectreviews', 'tokenreviews'],
  'authorization.k8s.io': [
    'localsubjectaccessreviews',
    'selfsubjectaccessreviews',
    'selfsubjectrulesreviews',
    'subjectaccessreviews',
  ],
};

export type Criteria = Pick<Hook, 'rules' | 'namespaceSelector' | 'objectSelector' | 'exact'>;

export function matchingType(
  criteria: Criteria,
  attributes: AdmissionAttributes,
  { registry, storage }: { readonly registry: ResourceRegistry; readonly storage: Storage },
): ResourceType | undefined {
  return selectsNamespace(criteria, attributes, storage) && selectsObject(criteria, attributes)
    ? typeInRules(criteria, attributes, registry)
    : undefined;
}

export function typeInRules(
  { rules, exact }: Pick<Criteria, 'rules' | 'exact'>,
  attributes: AdmissionAttributes,
  registry: ResourceRegistry,
): ResourceType | undefined {
  const { type } = attributes;
  const matches = (rule: Rule, candidate: ResourceType) => ruleMatches(rule, attributes, candidate);
  if (rules.some((rule) => matches(rule, type))) return type;
  if (exact) return undefined;
  const equivalents = registry.all().filter((other) => isEquivalent(other, type, attributes.subresource));
  // The first matching rule decides, regardless of the versions in other rules.
  for (const rule of rules) {
    const found = equivalents.find((other) => matches(rule, other));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Whether two types serve the same objects: versions of one resource, or Events of both groups. */
function isEquivalent(other: ResourceType, type: ResourceType, subresource: string): boolean {
  if (other.resource !== type.resource) return false;
  const isSame = other.group === type.group && other.version === type.version;
  return (
    !isSame && placeOf(other).group === placeOf(type).group && (subresource !== 'status' || other.hasStatus)
  );
}

function ruleMatches(
  rule: Rule,
  { operation, subresource, name }: AdmissionAttributes,
  type: ResourceType,
): boolean {
  const has = (list: readonly string[], value: string) => list.includes('*') || list.includes(value);
  return (
    has(rule.operations, operation) &&
    has(rule.apiGroups, type.group) &&
    has(rule.apiVersions, type.version) &&
    scopeMatches(rule.scope, type) &&
    (rule.names.length === 0 || rule.names.includes(name)) &&
    rule.resources.some((pattern) => resourceMatches(pattern, type.resource, subresource))
  );
}

/** A Namespace counts as cluster-scoped here, although requests for it name a namespace. */
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
  { namespaceSelector }: Criteria,
  { type, namespace, object, oldObject }: AdmissionAttributes,
  storage: Storage,
): boolean {
  if (Object.keys(namespaceSelector).length === 0) return true;
  if (type.group === '' && type.resource === 'namespaces') {
    return matchesSelector(namespaceSelector, (object ?? oldObject)?.metadata.labels ?? {});
  }
  if (!type.namespaced) return true;
  const labels = storage.get(NAMESPACES, { namespace: '', name: namespace })?.metadata.labels ?? {};
  return matchesSelector(namespaceSelector, labels);
}

function selectsObject({ objectSelector }: Criteria, { object, oldObject }: AdmissionAttributes): boolean {
  if (Object.keys(objectSelector).length === 0) return true;
  const selects = (candidate: ApiObject | undefined) =>
    candidate !== undefined && matchesSelector(objectSelector, candidate.metadata.labels ?? {});
  return selects(object) || selects(oldObject);
}

/** Whether all matchConditions are true. A false condition decides, even if others cannot be evaluated (matchconditions). */
export function conditionsHold({ conditions, ignoresFailures }: Hook, question: Question): boolean {
  if (conditions.length === 0) return true;
  const bindings = {
    object: question.object === undefined ? null : toJson(question.object),
    oldObject: question.oldObject === undefined ? null : toJson(question.oldObject),
    request: admissionRequest(question),
  };
  const problems: string[] = [];
  for (const { expression, evaluate } of conditions) {
    try {
      if (evaluate(bindings) === false) return false;
    } catch (error) {
      problems.push(`expression '${expression}' resulted in error: ${messageOf(error)}`);
    }
  }
  if (problems.length === 0) return true;
  if (ignoresFailures) return false;
  const { type, name } = question.attributes;
  throw forbidden(type, name, listed(problems));
}

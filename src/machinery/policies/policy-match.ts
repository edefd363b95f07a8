import type { JsonObject } from '../../json/json.ts';
import { normaliseSelector } from '../../json/label-selector.ts';
import { record, records, text } from '../fields.ts';
import type { ResourceRegistry, ResourceType } from '../resource-type.ts';
import type { Storage } from '../storage/stored.ts';
import type { AdmissionAttributes } from '../webhooks/admission-review.ts';
import { rulesOf, type Rule } from '../webhooks/hook.ts';
import { matchingType, REVIEWS, typeInRules, type Criteria } from '../webhooks/match.ts';

/** The kinds of admission policies, and reviews: otherwise a policy could prevent its own repair. */
const EXEMPT: Readonly<Record<string, readonly string[]>> = {
  'admissionregistration.k8s.io': [
    'validatingadmissionpolicies',
    'validatingadmissionpolicybindings',
    'mutatingadmissionpolicies',
    'mutatingadmissionpolicybindings',
  ],
  ...REVIEWS,
};

/** Whether no policy applies to requests for this resource. */
export const isExemptFromPolicies = ({ group, resource }: ResourceType): boolean =>
  EXEMPT[group]?.includes(resource) === true;

export interface PolicyCriteria extends Criteria {
  readonly excluded: readonly Rule[];
}

/** The version in which the policy sees the object; undefined if it does not match. */
export function criteriaMatch(
  criteria: PolicyCriteria,
  attributes: AdmissionAttributes,
  api: { readonly registry: ResourceRegistry; readonly storage: Storage },
): ResourceType | undefined {
  const { exact, excluded } = criteria;
  if (typeInRules({ rules: excluded, exact }, attributes, api.registry) !== undefined) return undefined;
  return matchingType(criteria, attributes, api);
}

const EVERYTHING: Rule = {
  ...{
    operations: ['*'],
    apiGroups: ['*'],
    apiVersions: ['*'],
    resources: ['*', '*/*'],
    scope: '*',
    names: [],
  },
};

/** Without rules, everything matches. */
export function criteriaOf(match: JsonObject): PolicyCriteria {
  const rules = rulesOf(records(match, 'resourceRules'));
  return {
    rules: rules.length === 0 ? [EVERYTHING] : rules,
    excluded: rulesOf(records(match, 'excludeResourceRules')),
    namespaceSelector: normaliseSelector(record(match, 'namespaceSelector') ?? {}, '').selector,
    objectSelector: normaliseSelector(record(match, 'objectSelector') ?? {}, '').selector,
    exact: text(match, 'matchPolicy') === 'Exact',
  };
}

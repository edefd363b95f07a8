import { isEqual, type JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import { subdomainProblem } from '../../dns-names.ts';
import { record, records, text, texts, section } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import { invalidValue, requiredValue, unsupportedValue } from '../../schema/causes.ts';
import { selectorProblems } from '../label-problems.ts';
import { pathSegmentProblem } from '../name-problems.ts';

// The rules of pkg/apis/rbac/validation/validation.go, in the same order and words.

const GROUP = 'rbac.authorization.k8s.io';

export const roleProblems = (role: ApiObject): readonly Cause[] => rulesProblems(role, true);

export function clusterRoleProblems(role: ApiObject): readonly Cause[] {
  const aggregation = record(role, 'aggregationRule');
  return [
    ...rulesProblems(role, false),
    ...(aggregation === undefined ? [] : aggregationProblems(aggregation)),
  ];
}

function aggregationProblems(aggregation: JsonObject): readonly Cause[] {
  const field = 'aggregationRule.clusterRoleSelectors';
  const selectors = records(aggregation, 'clusterRoleSelectors');
  if (selectors.length === 0) {
    return [requiredValue(field, 'at least one clusterRoleSelector required if aggregationRule is non-nil')];
  }
  return selectors.flatMap((selector, index) => selectorProblems(selector, `${field}[${index}]`));
}

const rulesProblems = (role: ApiObject, namespaced: boolean): readonly Cause[] =>
  records(role, 'rules').flatMap((rule, index) => ruleProblems(rule, `rules[${index}]`, namespaced));

function ruleProblems(rule: JsonObject, field: string, namespaced: boolean): readonly Cause[] {
  const [verbs, groups, resources, names, urls] = [
    'verbs',
    'apiGroups',
    'resources',
    'resourceNames',
    'nonResourceURLs',
  ].map((name) => texts(rule, name)) as [Texts, Texts, Texts, Texts, Texts]; // as many as there are names
  const noVerbs = verbs.length === 0 ? [requiredValue(`${field}.verbs`)] : [];
  if (urls.length > 0) {
    const at = `${field}.nonResourceURLs`;
    return [
      ...noVerbs,
      ...(namespaced ? [invalidValue(at, urls, 'namespaced rules cannot apply to non-resource URLs')] : []),
      ...(groups.length + resources.length + names.length > 0
        ? [invalidValue(at, urls, 'rules cannot apply to both regular resources and non-resource URLs')]
        : []),
    ];
  }
  return [
    ...noVerbs,
    ...(groups.length === 0
      ? [requiredValue(`${field}.apiGroups`, 'resource rules must supply at least one api group')]
      : []),
    ...(resources.length === 0
      ? [requiredValue(`${field}.resources`, 'resource rules must supply at least one resource')]
      : []),
  ];
}

type Texts = readonly string[];

/** @param roleKinds the kinds that `roleRef` may name */
export function bindingProblems(binding: ApiObject, roleKinds: readonly string[]): readonly Cause[] {
  const roleRef = section(binding, 'roleRef');
  const [group, kind, name] = [text(roleRef, 'apiGroup'), text(roleRef, 'kind'), text(roleRef, 'name')];
  const nameProblem = name === '' ? undefined : pathSegmentProblem(name);
  return [
    ...(group === GROUP ? [] : [unsupportedValue('roleRef.apiGroup', group, [GROUP])]),
    ...(roleKinds.includes(kind) ? [] : [unsupportedValue('roleRef.kind', kind, roleKinds)]),
    ...(name === '' ? [requiredValue('roleRef.name')] : []),
    ...(nameProblem === undefined ? [] : [invalidValue('roleRef.name', name, nameProblem)]),
    ...records(binding, 'subjects').flatMap((subject, index) =>
      subjectProblems(subject, `subjects[${index}]`, binding.kind === 'RoleBinding'),
    ),
  ];
}

function subjectProblems(subject: JsonObject, field: string, namespaced: boolean): readonly Cause[] {
  const [name, group] = [text(subject, 'name'), text(subject, 'apiGroup')];
  const noName = name === '' ? [requiredValue(`${field}.name`)] : [];
  const kind = text(subject, 'kind');
  switch (kind) {
    case 'ServiceAccount': {
      const problem = name === '' ? undefined : subdomainProblem(name);
      return [
        ...noName,
        ...(problem === undefined ? [] : [invalidValue(`${field}.name`, name, problem)]),
        ...(group === '' ? [] : [unsupportedValue(`${field}.apiGroup`, group, [''])]),
        ...(!namespaced && text(subject, 'namespace') === '' ? [requiredValue(`${field}.namespace`)] : []),
      ];
    }
    case 'User':
    case 'Group':
      return [...noName, ...(group === GROUP ? [] : [unsupportedValue(`${field}.apiGroup`, group, [GROUP])])];
    default:
      return [...noName, unsupportedValue(`${field}.kind`, kind, ['ServiceAccount', 'User', 'Group'])];
  }
}

/** roleRef is immutable; the message prints the API server's own struct. */
export function bindingUpdateProblems(binding: ApiObject, old: ApiObject): readonly Cause[] {
  const roleRef = section(binding, 'roleRef');
  if (isEqual(roleRef, section(old, 'roleRef'))) return [];
  const shown = {
    APIGroup: text(roleRef, 'apiGroup'),
    Kind: text(roleRef, 'kind'),
    Name: text(roleRef, 'name'),
  };
  return [invalidValue('roleRef', shown, 'field is immutable')];
}

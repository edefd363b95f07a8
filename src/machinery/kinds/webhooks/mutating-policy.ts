import { records, section, has, text, texts } from '../../fields.ts';
import type { ResourceType } from '../../resource-type.ts';
import { AGE, builtInKind } from '../built-in-kind.ts';
import { listOf, object, STRING, withDefault } from '../schema-builders.ts';
import { MATCH, NAMED_EXPRESSIONS, PARAM_KIND, PARAM_REF, POLICY_NAME } from './admission-policy.ts';
import { admissionNameProblem } from './webhook-problems.ts';
import type { JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import type { Cause } from '../../failure.ts';
import { compilePolicy } from '../../policies/compile-policy.ts';
import { invalidValue, requiredValue, unsupportedValue } from '../../schema/causes.ts';
import {
  conditionNameProblems,
  expressionProblems,
  matchProblems,
  policyNameProblems,
  variableNameProblems,
  wordProblem,
} from './admission-policy-problems.ts';
import { paramKindProblems, paramRefProblems } from './param-problems.ts';

// The rules about mutating policies of pkg/apis/admissionregistration/validation/validation.go.

const OPERATIONS = ['*', 'CONNECT', 'CREATE', 'UPDATE'];

const BODIES = { ApplyConfiguration: 'applyConfiguration', JSONPatch: 'jsonPatch' } as const;

/** The problems of a MutatingAdmissionPolicy. */
function mutatingPolicyProblems(policy: ApiObject): readonly Cause[] {
  const spec = section(policy, 'spec');
  const { conditions, variables, mutations } = compilePolicy(spec);
  return [
    ...wordProblem(spec, 'failurePolicy', ['Fail', 'Ignore'], 'spec'),
    ...paramKindProblems(spec),
    ...(has(spec, 'matchConstraints')
      ? [
          ...matchProblems(section(spec, 'matchConstraints'), 'spec.matchConstraints'),
          ...operationProblems(section(spec, 'matchConstraints'), 'spec.matchConstraints'),
        ]
      : [requiredValue('spec.matchConstraints')]),
    ...conditionNameProblems(spec),
    ...conditions.flatMap(expressionProblems),
    ...variableNameProblems(spec),
    ...variables.flatMap(({ expression }) => expressionProblems(expression)),
    ...(records(spec, 'mutations').length === 0
      ? [requiredValue('spec.mutations', 'mutations must contain at least one item')]
      : []),
    ...records(spec, 'mutations').flatMap((mutation, index) => {
      const at = `spec.mutations[${index}]`;
      const compiled = mutations.filter(({ expression }) => expression.path.startsWith(`${at}.`));
      return [
        ...compiled.flatMap(({ expression }) =>
          expression.text === '' ? [requiredValue(expression.path)] : expressionProblems(expression),
        ),
        ...bodyProblems(mutation, at),
      ];
    }),
    ...(text(spec, 'reinvocationPolicy') === ''
      ? [requiredValue('spec.reinvocationPolicy')]
      : wordProblem(spec, 'reinvocationPolicy', ['IfNeeded', 'Never'], 'spec')),
  ];
}

/** A mutation has the body of its patch type, and no other. */
function bodyProblems(mutation: JsonObject, at: string): readonly Cause[] {
  const patchType = text(mutation, 'patchType');
  if (patchType === '') return [requiredValue(`${at}.patchType`)];
  if (patchType !== 'ApplyConfiguration' && patchType !== 'JSONPatch')
    return [unsupportedValue(`${at}.patchType`, patchType, Object.keys(BODIES))];
  const own = BODIES[patchType];
  const other = patchType === 'JSONPatch' ? BODIES.ApplyConfiguration : BODIES.JSONPatch;
  const when = `specified when patchType is ${patchType}`;
  return [
    ...(has(mutation, own) ? [] : [requiredValue(`${at}.${own}`, `must be ${when}`)]),
    ...(has(mutation, other) ? [invalidValue(`${at}.${other}`, `{${other}}`, `must not be ${when}`)] : []),
  ];
}

/** The problems of a MutatingAdmissionPolicyBinding. */
function mutatingBindingProblems(binding: ApiObject): readonly Cause[] {
  const spec = section(binding, 'spec');
  const match = section(spec, 'matchResources');
  return [
    ...policyNameProblems(spec),
    ...paramRefProblems(spec),
    ...matchProblems(match, 'spec.matchResources', false),
    ...operationProblems(match, 'spec.matchResources'),
  ];
}

/** Nothing is left to change in a deletion. */
const operationProblems = (match: JsonObject, at: string): readonly Cause[] =>
  records(match, 'resourceRules').flatMap((rule) =>
    texts(rule, 'operations')
      .filter((operation) => operation === 'DELETE')
      .map((operation) => unsupportedValue(`${at}.resourceRules.operations`, operation, OPERATIONS)),
  );

export const MUTATING_POLICY: ResourceType = builtInKind({
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'MutatingAdmissionPolicy',
  resource: 'mutatingadmissionpolicies',
  categories: ['api-extensions'],
  description: 'Expressions that may change what is written.',
  fields: {
    spec: object({
      failurePolicy: withDefault(STRING, 'Fail'),
      paramKind: object({ apiVersion: STRING, kind: STRING }),
      matchConstraints: MATCH,
      matchConditions: NAMED_EXPRESSIONS,
      variables: NAMED_EXPRESSIONS,
      mutations: listOf(
        object({
          patchType: STRING,
          applyConfiguration: object({ expression: STRING }),
          jsonPatch: object({ expression: STRING }),
        }),
      ),
      reinvocationPolicy: STRING,
    }),
  },
  columns: [
    {
      name: 'Mutations',
      type: 'integer',
      description: 'How many mutations it has.',
      value: (policy) => records(section(policy, 'spec'), 'mutations').length,
    },
    PARAM_KIND,
    AGE,
  ],
  strategy: { countsGenerations: true, validate: mutatingPolicyProblems, nameProblem: admissionNameProblem },
});

export const MUTATING_POLICY_BINDING: ResourceType = builtInKind({
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'MutatingAdmissionPolicyBinding',
  resource: 'mutatingadmissionpolicybindings',
  categories: ['api-extensions'],
  description: 'Where a MutatingAdmissionPolicy applies.',
  fields: { spec: object({ policyName: STRING, paramRef: PARAM_REF, matchResources: MATCH }) },
  columns: [POLICY_NAME, AGE],
  strategy: { countsGenerations: true, validate: mutatingBindingProblems, nameProblem: admissionNameProblem },
});

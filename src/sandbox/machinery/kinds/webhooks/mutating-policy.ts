import { records, section } from '../../fields.ts';
import type { ResourceType } from '../../resource-type.ts';
import { AGE, builtInKind } from '../built-in-kind.ts';
import { listOf, object, STRING, withDefault } from '../schema-builders.ts';
import { MATCH, NAMED_EXPRESSIONS, PARAM_KIND, PARAM_REF, POLICY_NAME } from './admission-policy.ts';
import { mutatingBindingProblems, mutatingPolicyProblems } from './mutating-policy-problems.ts';
import { admissionNameProblem } from './webhook-problems.ts';

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

import type { JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import type { PrinterColumn, ResourceType } from '../../resource-type.ts';
import { has, records, section, spec, text, texts, withFields } from '../../fields.ts';
import { AGE, builtInKind } from '../built-in-kind.ts';
import {
  CONDITIONS,
  INT64,
  keyedList,
  LABEL_SELECTOR,
  listOf,
  object,
  STRING,
  STRINGS,
  withDefault,
} from '../schema-builders.ts';
import { bindingProblems, policyProblems } from './admission-policy-problems.ts';
import { admissionNameProblem } from './webhook-problems.ts';

const RULES = listOf(
  object({
    resourceNames: STRINGS,
    operations: STRINGS,
    apiGroups: STRINGS,
    apiVersions: STRINGS,
    resources: STRINGS,
    scope: withDefault(STRING, '*'),
  }),
);

/** Which requests a policy or a binding matches. */
export const MATCH = object({
  namespaceSelector: withDefault(LABEL_SELECTOR, {}),
  objectSelector: withDefault(LABEL_SELECTOR, {}),
  resourceRules: RULES,
  excludeResourceRules: RULES,
  matchPolicy: withDefault(STRING, 'Equivalent'),
});

export const PARAM_REF = object({
  name: STRING,
  namespace: STRING,
  selector: LABEL_SELECTOR,
  parameterNotFoundAction: STRING,
});

export const NAMED_EXPRESSIONS = keyedList(object({ name: STRING, expression: STRING }), ['name']);

export const PARAM_KIND: PrinterColumn = {
  name: 'ParamKind',
  type: 'string',
  description: 'The kind of its params.',
  value: (policy) =>
    has(section(policy, 'spec'), 'paramKind')
      ? text(section(policy, 'spec', 'paramKind'), 'kind')
      : '<unset>',
};

export const POLICY_NAME: PrinterColumn = {
  name: 'PolicyName',
  type: 'string',
  description: 'The policy.',
  value: (binding) => text(section(binding, 'spec'), 'policyName'),
};

/** Go writes no empty message. */
function withoutEmptyTexts(policy: ApiObject): ApiObject {
  const validations = records(spec(policy), 'validations');
  const isEmpty = (one: JsonObject) => one.message === '' || one.messageExpression === '';
  if (!validations.some(isEmpty)) return policy;
  return withFields(policy, {
    spec: {
      ...spec(policy),
      validations: validations.map((one) =>
        Object.fromEntries(
          Object.entries(one).filter(([name, value]) => !name.startsWith('message') || value !== ''),
        ),
      ),
    },
  });
}

export const VALIDATING_POLICY: ResourceType = builtInKind({
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'ValidatingAdmissionPolicy',
  resource: 'validatingadmissionpolicies',
  categories: ['api-extensions'],
  description: 'Expressions that may refuse what is written.',
  fields: {
    spec: object({
      failurePolicy: withDefault(STRING, 'Fail'),
      paramKind: object({ apiVersion: STRING, kind: STRING }),
      matchConstraints: MATCH,
      matchConditions: NAMED_EXPRESSIONS,
      variables: NAMED_EXPRESSIONS,
      validations: listOf(
        object({ expression: STRING, message: STRING, messageExpression: STRING, reason: STRING }),
      ),
      auditAnnotations: listOf(object({ key: STRING, valueExpression: STRING })),
    }),
    status: object({
      observedGeneration: INT64,
      conditions: CONDITIONS,
      typeChecking: object({ expressionWarnings: listOf(object({ fieldRef: STRING, warning: STRING })) }),
    }),
  },
  hasStatus: true,
  columns: [
    {
      name: 'Validations',
      type: 'integer',
      description: 'How many validations it has.',
      value: (policy) => {
        const validations = section(policy, 'spec').validations;
        return Array.isArray(validations) ? validations.length : 0;
      },
    },
    PARAM_KIND,
    AGE,
  ],
  strategy: {
    countsGenerations: true,
    completeDefaults: withoutEmptyTexts,
    prepareForCreate: (policy) => withFields(withoutEmptyTexts(policy), { status: {} }),
    prepareForUpdate: withoutEmptyTexts,
    validate: policyProblems,
    nameProblem: admissionNameProblem,
  },
});

export const VALIDATING_POLICY_BINDING: ResourceType = builtInKind({
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'ValidatingAdmissionPolicyBinding',
  resource: 'validatingadmissionpolicybindings',
  categories: ['api-extensions'],
  description: 'Where a ValidatingAdmissionPolicy applies, and what its failures cause.',
  fields: {
    spec: object({
      policyName: STRING,
      paramRef: PARAM_REF,
      matchResources: MATCH,
      validationActions: STRINGS,
    }),
  },
  columns: [
    POLICY_NAME,
    {
      name: 'ValidationActions',
      type: 'string',
      description: 'What its failures cause.',
      value: (binding) => texts(section(binding, 'spec'), 'validationActions').join(','),
    },
    AGE,
  ],
  strategy: { countsGenerations: true, validate: bindingProblems, nameProblem: admissionNameProblem },
});

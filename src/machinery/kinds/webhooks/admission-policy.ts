import { CelError } from '../../../cel/cel.ts';
import type { JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import type { ResourceType } from '../../resource-type.ts';
import { has, items, records, section, spec, text, texts, withFields } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import { compilePolicy } from '../../policies/compile-policy.ts';
import { invalidValue, requiredValue } from '../../schema/causes.ts';
import { AGE, builtInKind, column, countColumn } from '../built-in-kind.ts';
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
import { admissionNameProblem, RULE_FIELDS } from './webhook-configuration.ts';

const RULES = listOf(object({ resourceNames: STRINGS, ...RULE_FIELDS }));

const MATCH = object({
  namespaceSelector: withDefault(LABEL_SELECTOR, {}),
  objectSelector: withDefault(LABEL_SELECTOR, {}),
  resourceRules: RULES,
  excludeResourceRules: RULES,
  matchPolicy: withDefault(STRING, 'Equivalent'),
});

const PARAM_REF = object({
  name: STRING,
  namespace: STRING,
  selector: LABEL_SELECTOR,
  parameterNotFoundAction: STRING,
});

const NAMED_EXPRESSIONS = keyedList(object({ name: STRING, expression: STRING }), ['name']);

const PARAM_KIND = column('ParamKind', 'The kind of its params.', (policy) =>
  has(spec(policy), 'paramKind') ? text(section(policy, 'spec', 'paramKind'), 'kind') : '<unset>',
);

const POLICY_NAME = column('PolicyName', 'The policy.', (binding) => text(spec(binding), 'policyName'));

const COMMON_FIELDS = {
  failurePolicy: withDefault(STRING, 'Fail'),
  paramKind: object({ apiVersion: STRING, kind: STRING }),
  matchConstraints: MATCH,
  matchConditions: NAMED_EXPRESSIONS,
  variables: NAMED_EXPRESSIONS,
};

const COMMON = {
  apiVersion: 'admissionregistration.k8s.io/v1',
  categories: ['api-extensions'],
} as const;

const COMMON_STRATEGY = { countsGenerations: true, nameProblem: admissionNameProblem };

function expressionProblems(policy: ApiObject): readonly Cause[] {
  const { conditions, variables, validations, auditAnnotations, mutations } = compilePolicy(spec(policy));
  const parts = [...variables, ...validations, ...auditAnnotations, ...mutations];
  const messages = validations.flatMap(({ messageExpression }) => messageExpression ?? []);
  const all = [...conditions, ...parts.map(({ expression }) => expression), ...messages];
  return all.flatMap(({ text: source, path, program }) => {
    if (source === '') return [requiredValue(path)];
    if (!(program instanceof CelError)) return [];
    const { message } = program;
    const detail = message.startsWith('must evaluate to') ? message : `compilation failed: ${message}`;
    return [invalidValue(path, source, detail)];
  });
}

/** Go omits empty messages. */
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
  ...COMMON,
  kind: 'ValidatingAdmissionPolicy',
  resource: 'validatingadmissionpolicies',
  description: 'Expressions that may refuse what is written.',
  fields: {
    spec: object({
      ...COMMON_FIELDS,
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
    countColumn('Validations', 'How many validations it has.', (policy) =>
      items(spec(policy), 'validations'),
    ),
    PARAM_KIND,
    AGE,
  ],
  strategy: {
    ...COMMON_STRATEGY,
    completeDefaults: withoutEmptyTexts,
    prepareForCreate: (policy) => withFields(policy, { status: {} }),
    validate: expressionProblems,
  },
});

export const VALIDATING_POLICY_BINDING: ResourceType = builtInKind({
  ...COMMON,
  kind: 'ValidatingAdmissionPolicyBinding',
  resource: 'validatingadmissionpolicybindings',
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
    column('ValidationActions', 'What its failures cause.', (binding) =>
      texts(spec(binding), 'validationActions').join(','),
    ),
    AGE,
  ],
  strategy: COMMON_STRATEGY,
});

export const MUTATING_POLICY: ResourceType = builtInKind({
  ...COMMON,
  kind: 'MutatingAdmissionPolicy',
  resource: 'mutatingadmissionpolicies',
  description: 'Expressions that may change what is written.',
  fields: {
    spec: object({
      ...COMMON_FIELDS,
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
    countColumn('Mutations', 'How many mutations it has.', (policy) => items(spec(policy), 'mutations')),
    PARAM_KIND,
    AGE,
  ],
  strategy: { ...COMMON_STRATEGY, validate: expressionProblems },
});

export const MUTATING_POLICY_BINDING: ResourceType = builtInKind({
  ...COMMON,
  kind: 'MutatingAdmissionPolicyBinding',
  resource: 'mutatingadmissionpolicybindings',
  description: 'Where a MutatingAdmissionPolicy applies.',
  fields: { spec: object({ policyName: STRING, paramRef: PARAM_REF, matchResources: MATCH }) },
  columns: [POLICY_NAME, AGE],
  strategy: COMMON_STRATEGY,
});

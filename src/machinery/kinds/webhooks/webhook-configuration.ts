import { listIn, type JsonObject } from '../../../json/json.ts';
import { CelError } from '../../../cel/cel.ts';
import { asksAuthorizer, compileMatchCondition } from '../../../cel/match-condition.ts';
import type { ApiObject } from '../../api-object.ts';
import type { Cause } from '../../failure.ts';
import { record, records, text, texts, has, section, spec, withFields } from '../../fields.ts';
import { subdomainProblem } from '../../name-problems.ts';
import type { ResourceType } from '../../resource-type.ts';
import { duplicateValue, invalidValue, requiredValue, when } from '../../schema/causes.ts';
import { celProblem } from '../../schema/rules/rule-problems.ts';
import type { Schema } from '../../schema/schema.ts';
import { AGE, builtInKind, column } from '../built-in-kind.ts';
import * as s from '../schema-builders.ts';
import { clientConfigProblems, reviewVersionProblems } from './client-config-problems.ts';
import { compilePolicy } from '../../policies/compile-policy.ts';

const RULE_FIELDS: Readonly<Record<string, Schema>> = {
  operations: s.STRINGS,
  apiGroups: s.STRINGS,
  apiVersions: s.STRINGS,
  resources: s.STRINGS,
  scope: s.withDefault(s.STRING, '*'),
};

export const CLIENT_CONFIG = s.object({
  url: s.STRING,
  service: s.object({
    namespace: s.STRING,
    name: s.STRING,
    path: s.STRING,
    port: s.withDefault(s.INT32, 443),
  }),
  caBundle: s.BYTES,
});

const COMMON = {
  apiVersion: 'admissionregistration.k8s.io/v1',
  categories: ['api-extensions'],
} as const;

const COMMON_STRATEGY = { countsGenerations: true, nameProblem: admissionNameProblem };

const NAMED_EXPRESSIONS = s.keyedList(s.object({ name: s.STRING, expression: s.STRING }), ['name']);

/** With the defaults of pkg/apis/admissionregistration/v1/defaults.go. */
const COMMON_FIELDS: Readonly<Record<string, Schema>> = {
  name: s.STRING,
  clientConfig: s.withDefault(CLIENT_CONFIG, {}),
  rules: s.listOf(s.object(RULE_FIELDS)),
  failurePolicy: s.withDefault(s.STRING, 'Fail'),
  matchPolicy: s.withDefault(s.STRING, 'Equivalent'),
  namespaceSelector: s.withDefault(s.LABEL_SELECTOR, {}),
  objectSelector: s.withDefault(s.LABEL_SELECTOR, {}),
  sideEffects: s.STRING,
  timeoutSeconds: s.withDefault(s.INT32, 10),
  admissionReviewVersions: s.STRINGS,
  matchConditions: NAMED_EXPRESSIONS,
};

const countOf =
  (...path: readonly string[]) =>
  (object: ApiObject) =>
    listIn(object, ...path).length;

export const VALIDATING_WEBHOOKS = configurationKind(
  'Validating',
  'Webhooks that may refuse what is written.',
  COMMON_FIELDS,
);

export const MUTATING_WEBHOOKS = configurationKind('Mutating', 'Webhooks that may change what is written.', {
  ...COMMON_FIELDS,
  reinvocationPolicy: s.withDefault(s.STRING, 'Never'),
});

function configurationKind(
  manner: 'Mutating' | 'Validating',
  description: string,
  fields: Readonly<Record<string, Schema>>,
): ResourceType {
  return builtInKind({
    ...COMMON,
    kind: `${manner}WebhookConfiguration`,
    resource: `${manner.toLowerCase()}webhookconfigurations`,
    description,
    fields: { webhooks: s.keyedList(s.object(fields), ['name']) },
    columns: [column('Webhooks', 'How many webhooks it registers.', countOf('webhooks'), 'integer'), AGE],
    strategy: { ...COMMON_STRATEGY, validate: webhookProblems },
  });
}

/** The problems that prevent a call. A real API server refuses more configurations. */
function webhookProblems(configuration: ApiObject): readonly Cause[] {
  const webhooks = records(configuration, 'webhooks');
  const names = webhooks.map((webhook) => text(webhook, 'name'));
  return webhooks.flatMap((webhook, index) => {
    const field = `webhooks[${index}]`;
    const name = names[index] ?? '';
    return [
      ...(name === '' ? [requiredValue(`${field}.name`)] : []),
      ...when(names.indexOf(name) < index, duplicateValue(`${field}.name`, name)),
      ...clientConfigProblems(record(webhook, 'clientConfig') ?? {}, `${field}.clientConfig`),
      ...reviewVersionProblems(
        texts(webhook, 'admissionReviewVersions'),
        `${field}.admissionReviewVersions`,
        'must specify one of v1, v1beta1',
      ),
      ...records(webhook, 'matchConditions').flatMap((condition, position) =>
        expressionProblems(
          text(condition, 'expression').trim(),
          `${field}.matchConditions[${position}].expression`,
        ),
      ),
    ];
  });
}

function admissionNameProblem(name: string): string | undefined {
  const reserved =
    'names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be managed via the API';
  return subdomainProblem(name) ?? (name.endsWith('.static.k8s.io') ? reserved : undefined);
}

function expressionProblems(expression: string, field: string): readonly Cause[] {
  if (expression === '') return [requiredValue(field)];
  try {
    const isUnsupported = asksAuthorizer(compileMatchCondition(expression));
    const why = 'the sandbox does not support the authorizer in match conditions';
    return when(isUnsupported, invalidValue(field, expression, why));
  } catch (error) {
    const isTypeProblem = error instanceof CelError && error.message.startsWith('must evaluate to');
    return [invalidValue(field, expression, isTypeProblem ? error.message : celProblem(error))];
  }
}

const RULES = s.listOf(s.object({ resourceNames: s.STRINGS, ...RULE_FIELDS }));

const MATCH = s.object({
  namespaceSelector: s.withDefault(s.LABEL_SELECTOR, {}),
  objectSelector: s.withDefault(s.LABEL_SELECTOR, {}),
  resourceRules: RULES,
  excludeResourceRules: RULES,
  matchPolicy: s.withDefault(s.STRING, 'Equivalent'),
});

const PARAM_REF = s.object({
  name: s.STRING,
  namespace: s.STRING,
  selector: s.LABEL_SELECTOR,
  parameterNotFoundAction: s.STRING,
});

const PARAM_KIND = column('ParamKind', 'The kind of its params.', (policy) =>
  has(spec(policy), 'paramKind') ? text(section(policy, 'spec', 'paramKind'), 'kind') : '<unset>',
);

const POLICY_NAME = column('PolicyName', 'The policy.', (binding) => text(spec(binding), 'policyName'));

const POLICY_FIELDS = {
  failurePolicy: s.withDefault(s.STRING, 'Fail'),
  paramKind: s.object({ apiVersion: s.STRING, kind: s.STRING }),
  matchConstraints: MATCH,
  matchConditions: NAMED_EXPRESSIONS,
  variables: NAMED_EXPRESSIONS,
};

function policyProblems(policy: ApiObject): readonly Cause[] {
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
    spec: s.object({
      ...POLICY_FIELDS,
      validations: s.listOf(
        s.object({ expression: s.STRING, message: s.STRING, messageExpression: s.STRING, reason: s.STRING }),
      ),
      auditAnnotations: s.listOf(s.object({ key: s.STRING, valueExpression: s.STRING })),
    }),
    status: s.object({
      observedGeneration: s.INT64,
      conditions: s.CONDITIONS,
      typeChecking: s.object({
        expressionWarnings: s.listOf(s.object({ fieldRef: s.STRING, warning: s.STRING })),
      }),
    }),
  },
  hasStatus: true,
  columns: [
    column('Validations', 'How many validations it has.', countOf('spec', 'validations'), 'integer'),
    PARAM_KIND,
    AGE,
  ],
  strategy: {
    ...COMMON_STRATEGY,
    completeDefaults: withoutEmptyTexts,
    prepareForCreate: (policy) => withFields(policy, { status: {} }),
    validate: policyProblems,
  },
});

export const VALIDATING_POLICY_BINDING: ResourceType = builtInKind({
  ...COMMON,
  kind: 'ValidatingAdmissionPolicyBinding',
  resource: 'validatingadmissionpolicybindings',
  description: 'Where a ValidatingAdmissionPolicy applies, and what its failures cause.',
  fields: {
    spec: s.object({
      policyName: s.STRING,
      paramRef: PARAM_REF,
      matchResources: MATCH,
      validationActions: s.STRINGS,
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
    spec: s.object({
      ...POLICY_FIELDS,
      mutations: s.listOf(
        s.object({
          patchType: s.STRING,
          applyConfiguration: s.object({ expression: s.STRING }),
          jsonPatch: s.object({ expression: s.STRING }),
        }),
      ),
      reinvocationPolicy: s.STRING,
    }),
  },
  columns: [
    column('Mutations', 'How many mutations it has.', countOf('spec', 'mutations'), 'integer'),
    PARAM_KIND,
    AGE,
  ],
  strategy: { ...COMMON_STRATEGY, validate: policyProblems },
});

export const MUTATING_POLICY_BINDING: ResourceType = builtInKind({
  ...COMMON,
  kind: 'MutatingAdmissionPolicyBinding',
  resource: 'mutatingadmissionpolicybindings',
  description: 'Where a MutatingAdmissionPolicy applies.',
  fields: { spec: s.object({ policyName: s.STRING, paramRef: PARAM_REF, matchResources: MATCH }) },
  columns: [POLICY_NAME, AGE],
  strategy: COMMON_STRATEGY,
});

import { type JsonObject } from '../../../json/json.ts';
import { CelError } from '../../../cel/cel.ts';
import { asksAuthorizer, compileMatchCondition } from '../../../cel/match-condition.ts';
import type { ApiObject } from '../../api-object.ts';
import type { Cause } from '../../failure.ts';
import { items, record, records, text, texts } from '../../fields.ts';
import { subdomainProblem } from '../../name-problems.ts';
import type { ResourceType } from '../../resource-type.ts';
import { duplicateValue, invalidValue, requiredValue, when } from '../../schema/causes.ts';
import { celProblem } from '../../schema/rules/rule-problems.ts';
import type { Schema } from '../../schema/schema.ts';
import { REVIEWS } from '../../webhooks/match.ts';
import { AGE, builtInKind, countColumn } from '../built-in-kind.ts';
import {
  BYTES,
  INT32,
  keyedList,
  LABEL_SELECTOR,
  listOf,
  object,
  STRING,
  STRINGS,
  withDefault,
} from '../schema-builders.ts';
import { clientConfigProblems, reviewVersionProblems } from './client-config-problems.ts';

export const RULE_FIELDS: Readonly<Record<string, Schema>> = {
  operations: STRINGS,
  apiGroups: STRINGS,
  apiVersions: STRINGS,
  resources: STRINGS,
  scope: withDefault(STRING, '*'),
};

export const CLIENT_CONFIG = object({
  url: STRING,
  service: object({ namespace: STRING, name: STRING, path: STRING, port: withDefault(INT32, 443) }),
  caBundle: BYTES,
});

/** With the defaults of pkg/apis/admissionregistration/v1/defaults.go. */
const COMMON_FIELDS: Readonly<Record<string, Schema>> = {
  name: STRING,
  clientConfig: withDefault(CLIENT_CONFIG, {}),
  rules: listOf(object(RULE_FIELDS)),
  failurePolicy: withDefault(STRING, 'Fail'),
  matchPolicy: withDefault(STRING, 'Equivalent'),
  namespaceSelector: withDefault(LABEL_SELECTOR, {}),
  objectSelector: withDefault(LABEL_SELECTOR, {}),
  sideEffects: STRING,
  timeoutSeconds: withDefault(INT32, 10),
  admissionReviewVersions: STRINGS,
  matchConditions: keyedList(object({ name: STRING, expression: STRING }), ['name']),
};

export const VALIDATING_WEBHOOKS = configurationKind(
  'Validating',
  'Webhooks that may refuse what is written.',
  COMMON_FIELDS,
);

export const MUTATING_WEBHOOKS = configurationKind('Mutating', 'Webhooks that may change what is written.', {
  ...COMMON_FIELDS,
  reinvocationPolicy: withDefault(STRING, 'Never'),
});

function configurationKind(
  manner: 'Mutating' | 'Validating',
  description: string,
  fields: Readonly<Record<string, Schema>>,
): ResourceType {
  return builtInKind({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: `${manner}WebhookConfiguration`,
    resource: `${manner.toLowerCase()}webhookconfigurations`,
    categories: ['api-extensions'],
    description,
    fields: { webhooks: keyedList(object(fields), ['name']) },
    columns: [
      countColumn('Webhooks', 'How many webhooks it registers.', (hooks) => items(hooks, 'webhooks')),
      AGE,
    ],
    strategy: {
      countsGenerations: true,
      validate: webhookProblems,
      nameProblem: admissionNameProblem,
      warnings: webhookWarnings,
    },
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

export function admissionNameProblem(name: string): string | undefined {
  const reserved =
    'names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be managed via the API';
  return subdomainProblem(name) ?? (name.endsWith('.static.k8s.io') ? reserved : undefined);
}

/** @see kubernetes/pkg/apis/admissionregistration/validation/warnings.go */
function webhookWarnings(configuration: ApiObject): readonly string[] {
  return records(configuration, 'webhooks').flatMap((webhook, index) =>
    records(webhook, 'rules').flatMap((rule, position) =>
      reviewsIn(rule).map(
        (name) =>
          `webhooks[${index}].rules[${position}]: ${name} is excluded from admission webhooks; this rule will have no effect`,
      ),
    ),
  );
}

function reviewsIn(rule: JsonObject): readonly string[] {
  const [groups, resources] = [texts(rule, 'apiGroups'), texts(rule, 'resources')];
  if (groups.includes('*') || resources.includes('*')) return [];
  const named = groups.flatMap((group) =>
    resources.flatMap((resource) =>
      REVIEWS[group]?.includes(resource) === true ? [`${resource}.${group}`] : [],
    ),
  );
  return [...new Set(named)];
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

import type { ResourceType } from '../../resource-type.ts';
import type { Schema } from '../../schema/schema.ts';
import { AGE, builtInKind } from '../built-in-kind.ts';
import { items } from '../../fields.ts';
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
import { admissionNameProblem, webhookProblems, webhookWarnings } from './webhook-problems.ts';

const RULES = listOf(
  object({
    operations: STRINGS,
    apiGroups: STRINGS,
    apiVersions: STRINGS,
    resources: STRINGS,
    scope: withDefault(STRING, '*'),
  }),
);

/** WebhookClientConfig of admission webhooks. */
const CLIENT_CONFIG = object({
  url: STRING,
  service: object({ namespace: STRING, name: STRING, path: STRING, port: withDefault(INT32, 443) }),
  caBundle: BYTES,
});

/** With the defaults of pkg/apis/admissionregistration/v1/defaults.go. */
const COMMON_FIELDS: Readonly<Record<string, Schema>> = {
  name: STRING,
  clientConfig: withDefault(CLIENT_CONFIG, {}),
  rules: RULES,
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
      {
        name: 'Webhooks',
        type: 'integer',
        description: 'How many webhooks it registers.',
        value: (configuration) => items(configuration, 'webhooks').length,
      },
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

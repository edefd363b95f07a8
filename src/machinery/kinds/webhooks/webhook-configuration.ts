import { type JsonObject } from '../../../json/json.ts';
import { CelError } from '../../../cel/cel.ts';
import { asksAuthorizer, compileMatchCondition } from '../../../cel/match-condition.ts';
import type { ApiObject } from '../../api-object.ts';
import type { Cause } from '../../failure.ts';
import { has, items, number, record, records, text, texts } from '../../fields.ts';
import { labelKeyProblems, subdomainProblem } from '../../name-problems.ts';
import type { ResourceType } from '../../resource-type.ts';
import {
  duplicateValue,
  invalidIf,
  invalidValue,
  invalidValues,
  notAmong,
  requiredValue,
  tooMany,
  when,
} from '../../schema/causes.ts';
import { celProblem } from '../../schema/rules/rule-problems.ts';
import type { Schema } from '../../schema/schema.ts';
import { selectorProblems } from '../../selectors/label-selector.ts';
import { REVIEWS } from '../../webhooks/match.ts';
import { AGE, builtInKind, column } from '../built-in-kind.ts';
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

/** Of a rule of a webhook or an admission policy. */
export const RULE_FIELDS: Readonly<Record<string, Schema>> = {
  operations: STRINGS,
  apiGroups: STRINGS,
  apiVersions: STRINGS,
  resources: STRINGS,
  scope: withDefault(STRING, '*'),
};

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
      column(
        'Webhooks',
        'How many webhooks it registers.',
        (configuration) => items(configuration, 'webhooks').length,
        { type: 'integer' },
      ),
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

// The rules of pkg/apis/admissionregistration/validation/validation.go, in the same order and words. caBundle is
// not checked: it only has to be base64, and an invalid certificate fails when the webhook is called.

const SIDE_EFFECTS = ['None', 'NoneOnDryRun'];
export const MOST_CONDITIONS = 64;

/** The problems of a MutatingWebhookConfiguration or a ValidatingWebhookConfiguration. */
function webhookProblems(configuration: ApiObject): readonly Cause[] {
  const webhooks = records(configuration, 'webhooks');
  const names = webhooks.map((webhook) => text(webhook, 'name'));
  return webhooks.flatMap((webhook, index) => {
    const field = `webhooks[${index}]`;
    const name = names[index] ?? '';
    return [
      ...oneWebhookProblems(webhook, field),
      ...reviewVersionProblems(
        texts(webhook, 'admissionReviewVersions'),
        `${field}.admissionReviewVersions`,
        'must specify one of v1, v1beta1',
      ),
      ...when(name !== '' && names.indexOf(name) < index, duplicateValue(`${field}.name`, name)),
    ];
  });
}

/** The name of a webhook configuration, an admission policy or a binding. */
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

/** The reviews that a rule without wildcards names. */
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

function oneWebhookProblems(webhook: JsonObject, field: string): readonly Cause[] {
  const seconds = number(webhook, 'timeoutSeconds') ?? 10;
  return [
    ...qualifiedNameProblems(text(webhook, 'name'), `${field}.name`),
    ...records(webhook, 'rules').flatMap((rule, index) =>
      webhookRuleProblems(rule, `${field}.rules[${index}]`),
    ),
    ...wordProblem(webhook, 'failurePolicy', ['Fail', 'Ignore'], field),
    ...wordProblem(webhook, 'matchPolicy', ['Equivalent', 'Exact'], field),
    ...(has(webhook, 'sideEffects')
      ? wordProblem(webhook, 'sideEffects', SIDE_EFFECTS, field)
      : [requiredValue(`${field}.sideEffects`, `must specify one of ${SIDE_EFFECTS.join(', ')}`)]),
    ...when(
      seconds > 30 || seconds < 1,
      invalidValue(`${field}.timeoutSeconds`, seconds, 'the timeout value must be between 1 and 30 seconds'),
    ),
    ...['namespaceSelector', 'objectSelector'].flatMap((name) =>
      selectorProblems(record(webhook, name) ?? {}, `${field}.${name}`),
    ),
    ...wordProblem(webhook, 'reinvocationPolicy', ['IfNeeded', 'Never'], field),
    ...clientConfigProblems(record(webhook, 'clientConfig') ?? {}, `${field}.clientConfig`),
    ...conditionsProblems(records(webhook, 'matchConditions'), `${field}.matchConditions`),
  ];
}

/** The problem of an optional field with few values. */
export const wordProblem = (
  parent: JsonObject,
  name: string,
  supported: readonly string[],
  field: string,
): readonly Cause[] => (has(parent, name) ? notAmong(`${field}.${name}`, text(parent, name), supported) : []);

/** Webhook names are fully qualified domain names, so that owners of different domains cannot clash. */
function qualifiedNameProblems(name: string, field: string): readonly Cause[] {
  if (name === '') return [requiredValue(field)];
  const short = 'should be a domain with at least three segments separated by dots';
  return invalidIf(field, name, subdomainProblem(name) ?? (name.split('.').length < 3 ? short : undefined));
}

function conditionsProblems(conditions: readonly JsonObject[], field: string): readonly Cause[] {
  return [
    ...when(conditions.length > MOST_CONDITIONS, tooMany(field, conditions.length, MOST_CONDITIONS)),
    ...conditions.flatMap((condition, index) => [
      ...expressionProblems(text(condition, 'expression').trim(), `${field}[${index}].expression`),
      ...conditionNameProblems(conditions, index, field),
    ]),
  ];
}

/** The problems of the name of a match condition, also of an admission policy. */
export function conditionNameProblems(
  conditions: readonly JsonObject[],
  index: number,
  field: string,
): readonly Cause[] {
  const at = `${field}[${index}].name`;
  const names = conditions.map((condition) => text(condition, 'name'));
  const name = names[index] ?? '';
  if (name === '') return [requiredValue(at)];
  return [
    ...invalidValues(at, name, labelKeyProblems(name)),
    ...when(names.indexOf(name) < index, duplicateValue(at, name)),
  ];
}

function expressionProblems(expression: string, field: string): readonly Cause[] {
  if (expression === '') return [requiredValue(field)];
  try {
    const isUnsupported = asksAuthorizer(compileMatchCondition(expression));
    const why = 'the sandbox has no authorizer in match conditions';
    return when(isUnsupported, invalidValue(field, expression, why));
  } catch (error) {
    const isTypeProblem = error instanceof CelError && error.message.startsWith('must evaluate to');
    return [invalidValue(field, expression, isTypeProblem ? error.message : celProblem(error))];
  }
}

const OPERATIONS = ['*', 'CONNECT', 'CREATE', 'DELETE', 'UPDATE'];
const SCOPES = ['*', 'Cluster', 'Namespaced'];

/** The problems of one webhook rule (validateRuleWithOperations). */
export function webhookRuleProblems(rule: JsonObject, field: string): readonly Cause[] {
  return [
    ...listProblems(rule, field, 'operations', 'operations'),
    ...texts(rule, 'operations').flatMap((operation, index) =>
      notAmong(`${field}.operations[${index}]`, operation, OPERATIONS),
    ),
    ...listProblems(rule, field, 'apiGroups', 'API groups'),
    ...listProblems(rule, field, 'apiVersions', 'API versions'),
    ...texts(rule, 'apiVersions').flatMap((version, index) =>
      when(version === '', requiredValue(`${field}.apiVersions[${index}]`)),
    ),
    ...resourcesProblems(texts(rule, 'resources'), `${field}.resources`),
    ...wordProblem(rule, 'scope', SCOPES, field),
  ];
}

/** The list must not be empty, and `*` excludes other items. */
function listProblems(rule: JsonObject, field: string, name: string, called: string): readonly Cause[] {
  const list = texts(rule, name);
  if (list.length === 0) return [requiredValue(`${field}.${name}`)];
  return when(
    list.length > 1 && list.includes('*'),
    invalidValue(`${field}.${name}`, list, `if '*' is present, must not specify other ${called}`),
  );
}

/** A pattern may not repeat what an earlier pattern matches. */
function resourcesProblems(resources: readonly string[], field: string): readonly Cause[] {
  if (resources.length === 0) return [requiredValue(field)];
  // As in the API server, the last pattern without a subresource decides.
  const bare = resources.filter((resource) => resource !== '' && !resource.includes('/')).at(-1) ?? '*';
  const alone = (pattern: string, others: string) =>
    invalidValue(field, resources, `if '${pattern}' is present, must not specify other ${others}`);
  return [
    ...resources.flatMap((resource, index) =>
      resource === ''
        ? [requiredValue(`${field}[${index}]`)]
        : invalidValues(`${field}[${index}]`, resource, overlaps(resource, resources.slice(0, index))),
    ),
    ...when(resources.length > 1 && resources.includes('*/*'), alone('*/*', 'resources')),
    ...when(resources.includes('*') && bare !== '*', alone('*', 'resources without subresources')),
  ];
}

function overlaps(resource: string, earlier: readonly string[]): readonly string[] {
  const [name = '', subresource] = resource.split(/\/(.*)/s);
  if (subresource === undefined) return [];
  return [`${name}/*`, `*/${subresource}`]
    .filter((pattern) => earlier.includes(pattern))
    .map((pattern) => `if '${pattern}' is present, must not specify ${resource}`);
}

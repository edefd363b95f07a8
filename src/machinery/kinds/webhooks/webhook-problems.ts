import { type JsonObject } from '../../../json/json.ts';
import { CelError } from '../../../cel/cel.ts';
import { asksAuthorizer, compileMatchCondition } from '../../../cel/match-condition.ts';
import type { ApiObject } from '../../api-object.ts';
import { label1035Problem, subdomainProblem } from '../../dns-names.ts';
import { record, records, text, texts, has, number } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import { labelKeyProblems } from '../../selectors/label-syntax.ts';
import { celProblem } from '../../schema/rules/rule-problems.ts';
import {
  duplicateValue,
  invalidValue,
  requiredValue,
  tooMany,
  unsupportedValue,
} from '../../schema/causes.ts';
import { clientConfigProblems } from './client-config-problems.ts';
import { REVIEWS } from '../../webhooks/match.ts';
import { selectorProblems } from '../label-problems.ts';
import { webhookRuleProblems } from './webhook-rule-problems.ts';

// The rules of pkg/apis/admissionregistration/validation/validation.go, in the same order and words. caBundle is
// not checked: it only has to be base64, and an invalid certificate fails when the webhook is called.

const REVIEW_VERSIONS = ['v1', 'v1beta1'];
const SIDE_EFFECTS = ['None', 'NoneOnDryRun'];
const MOST_CONDITIONS = 64;

/** The problems of a MutatingWebhookConfiguration or a ValidatingWebhookConfiguration. */
export function webhookProblems(configuration: ApiObject): readonly Cause[] {
  const webhooks = records(configuration, 'webhooks');
  const names = webhooks.map((webhook) => text(webhook, 'name'));
  return webhooks.flatMap((webhook, index) => {
    const field = `webhooks[${index}]`;
    const name = names[index] ?? '';
    return [
      ...oneWebhookProblems(webhook, field),
      ...reviewVersionProblems(texts(webhook, 'admissionReviewVersions'), `${field}.admissionReviewVersions`),
      ...(name !== '' && names.indexOf(name) < index ? [duplicateValue(`${field}.name`, name)] : []),
    ];
  });
}

/** The name of a webhook configuration, an admission policy or a binding. */
export const admissionNameProblem = (name: string): string | undefined =>
  subdomainProblem(name) ??
  (name.endsWith('.static.k8s.io')
    ? 'names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be managed via the API'
    : undefined);

/** @see kubernetes/pkg/apis/admissionregistration/validation/warnings.go */
export function webhookWarnings(configuration: ApiObject): readonly string[] {
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
  const seconds = number(webhook, 'timeoutSeconds');
  return [
    ...qualifiedNameProblems(text(webhook, 'name'), `${field}.name`),
    ...records(webhook, 'rules').flatMap((rule, index) =>
      webhookRuleProblems(rule, `${field}.rules[${index}]`),
    ),
    ...wordProblems(webhook, field, 'failurePolicy', ['Fail', 'Ignore']),
    ...wordProblems(webhook, field, 'matchPolicy', ['Equivalent', 'Exact']),
    ...(has(webhook, 'sideEffects')
      ? wordProblems(webhook, field, 'sideEffects', SIDE_EFFECTS)
      : [requiredValue(`${field}.sideEffects`, `must specify one of ${SIDE_EFFECTS.join(', ')}`)]),
    ...(seconds !== undefined && (seconds > 30 || seconds < 1)
      ? [
          invalidValue(
            `${field}.timeoutSeconds`,
            seconds,
            'the timeout value must be between 1 and 30 seconds',
          ),
        ]
      : []),
    ...['namespaceSelector', 'objectSelector'].flatMap((name) =>
      selectorProblems(record(webhook, name) ?? {}, `${field}.${name}`),
    ),
    ...wordProblems(webhook, field, 'reinvocationPolicy', ['IfNeeded', 'Never']),
    ...clientConfigProblems(record(webhook, 'clientConfig') ?? {}, `${field}.clientConfig`),
    ...conditionsProblems(records(webhook, 'matchConditions'), `${field}.matchConditions`),
  ];
}

function wordProblems(
  webhook: JsonObject,
  field: string,
  name: string,
  supported: readonly string[],
): readonly Cause[] {
  const word = text(webhook, name);
  if (!has(webhook, name) || supported.includes(word)) return [];
  return [unsupportedValue(`${field}.${name}`, word, supported)];
}

/** Webhook names are fully qualified domain names, so that owners of different domains cannot clash. */
function qualifiedNameProblems(name: string, field: string): readonly Cause[] {
  if (name === '') return [requiredValue(field)];
  const problem = subdomainProblem(name);
  if (problem !== undefined) return [invalidValue(field, name, problem)];
  return name.split('.').length >= 3
    ? []
    : [invalidValue(field, name, 'should be a domain with at least three segments separated by dots')];
}

function reviewVersionProblems(versions: readonly string[], field: string): readonly Cause[] {
  if (versions.length === 0) {
    return [requiredValue(field, `must specify one of ${REVIEW_VERSIONS.join(', ')}`)];
  }
  return [
    ...versions.flatMap((version, index) => {
      const at = `${field}[${index}]`;
      if (versions.indexOf(version) < index) return [invalidValue(at, version, 'duplicate version')];
      const problem = label1035Problem(version);
      return problem === undefined ? [] : [invalidValue(at, version, problem)];
    }),
    ...(versions.some((version) => REVIEW_VERSIONS.includes(version))
      ? []
      : [invalidValue(field, versions, `must include at least one of ${REVIEW_VERSIONS.join(', ')}`)]),
  ];
}

function conditionsProblems(conditions: readonly JsonObject[], field: string): readonly Cause[] {
  const names = conditions.map((condition) => text(condition, 'name'));
  return [
    ...(conditions.length > MOST_CONDITIONS ? [tooMany(field, conditions.length, MOST_CONDITIONS)] : []),
    ...conditions.flatMap((condition, index) => {
      const name = names[index] ?? '';
      return [
        ...expressionProblems(text(condition, 'expression').trim(), `${field}[${index}].expression`),
        ...(name === '' ? [requiredValue(`${field}[${index}].name`)] : []),
        ...(name === '' ? [] : labelKeyProblems(name)).map((problem) =>
          invalidValue(`${field}[${index}].name`, name, problem),
        ),
        ...(name !== '' && names.indexOf(name) < index
          ? [duplicateValue(`${field}[${index}].name`, name)]
          : []),
      ];
    }),
  ];
}

function expressionProblems(expression: string, field: string): readonly Cause[] {
  if (expression === '') return [requiredValue(field)];
  const problem = expressionProblem(expression);
  return problem === undefined ? [] : [invalidValue(field, expression, problem)];
}

function expressionProblem(expression: string): string | undefined {
  try {
    const isUnsupported = asksAuthorizer(compileMatchCondition(expression));
    return isUnsupported ? 'the sandbox has no authorizer in match conditions' : undefined;
  } catch (error) {
    const isTypeProblem = error instanceof CelError && error.message.startsWith('must evaluate to');
    return isTypeProblem ? error.message : celProblem(error);
  }
}

import { CelCostError } from '../../cel/cel-error.ts';
import { authorizerValues, type CelAuthorize } from '../../cel/library/authorizer.ts';
import { trimSpace } from '../../cel/library/text.ts';
import { CelError } from '../../cel/cel.ts';
import { CEL_COST_LIMIT, celValue, createCelBudget, lazyCelMap } from '../../cel/values/values.ts';
import { type ApiObject, toJson } from '../api-object.ts';
import { listed } from '../failure.ts';
import { admissionRequest, type Question } from '../webhooks/admission-review.ts';
import type { Expression, PolicyExpressions, Validation } from './compile-policy.ts';

export interface Failure {
  readonly message: string;
  readonly reason: string;
  readonly index: number;
}

export interface Evaluated {
  readonly failures: readonly Failure[];
  readonly auditAnnotations: readonly (readonly [key: string, value: string])[];
  /** Audit annotations that could not be evaluated: they refuse the request regardless of the binding's actions. */
  readonly auditErrors: readonly Failure[];
}

const NOTHING: Evaluated = { failures: [], auditAnnotations: [], auditErrors: [] };
const LONGEST_MESSAGE = 5 * 1024;
const LONGEST_ANNOTATION = 10 * 1024;

// The limits of k8s.io/apiserver/pkg/apis/cel/config.go for all expressions of one kind.
const POLICY_COST_LIMIT = 10_000_000;
const CONDITIONS_COST_LIMIT = 2_500_000;

/** Evaluates a policy on one request, as k8s.io/apiserver/pkg/admission/plugin/policy/validating does. */
export function evaluatePolicy(
  policy: PolicyExpressions & { readonly ignoresFailures: boolean },
  question: Question,
  namespaceObject: ApiObject | undefined,
  authorize: CelAuthorize,
  params?: ApiObject,
): Evaluated {
  const evaluation = evaluationOf(policy, question, namespaceObject, authorize, params);
  const broken = (messages: readonly string[]): readonly Failure[] =>
    policy.ignoresFailures || messages.length === 0
      ? []
      : [{ message: listed(messages), reason: 'Invalid', index: 0 }];

  const match = evaluateConditions(policy, evaluation);
  if (match.kind === 'error') return { ...NOTHING, failures: broken(match.messages) };
  if (match.kind === 'misses') return NOTHING;

  const results: Outcome[] = [];
  for (const { expression } of policy.validations) {
    const result = outcome(expression, evaluation);
    if (result.kind === 'exhausted') return { ...NOTHING, failures: broken([result.message]) };
    results.push(result);
  }
  // Messages and audit annotations cannot ask the authorizer, also not by way of a variable.
  const withoutAuthorizer = (left: number) =>
    evaluationOf(policy, question, namespaceObject, undefined, params, left);
  const messages = results.some((result) => result.kind === 'value' && result.value !== true)
    ? evaluateMessages(policy, withoutAuthorizer(evaluation.cost.left))
    : [];
  const failures = policy.validations.flatMap((validation, index): readonly Failure[] => {
    const result = results[index];
    if (result?.kind !== 'value') return broken([result?.message ?? '']).map((one) => ({ ...one, index }));
    if (result.value === true) return [];
    return [{ message: messageOf(validation, messages[index]), reason: validation.reason, index }];
  });
  const annotating = withoutAuthorizer(POLICY_COST_LIMIT);
  const annotations: (readonly [string, string])[] = [];
  const auditErrors: Failure[] = [];
  for (const { key, expression } of policy.auditAnnotations) {
    const result = outcome(expression, annotating);
    if (result.kind === 'exhausted') return { ...NOTHING, failures: broken([result.message]) };
    if (result.kind === 'error') auditErrors.push(...broken([result.message]));
    const value = result.kind === 'value' && typeof result.value === 'string' ? trimSpace(result.value) : '';
    if (value !== '') annotations.push([key, Buffer.from(value).subarray(0, LONGEST_ANNOTATION).toString()]);
  }
  return { failures, auditAnnotations: annotations, auditErrors };
}

export type PolicyMatch =
  { readonly kind: 'hits' | 'misses' } | { readonly kind: 'error'; readonly messages: readonly string[] };

/** Whether all match conditions hold. The API server shows no namespace to them. */
export function evaluateConditions({ conditions }: PolicyExpressions, { values }: Evaluation): PolicyMatch {
  const evaluation = { values: { ...values, namespaceObject: null }, cost: { left: CONDITIONS_COST_LIMIT } };
  const messages: string[] = [];
  for (const condition of conditions) {
    const result = outcome(condition, evaluation);
    if (result.kind === 'exhausted') return { kind: 'error', messages: [result.message] };
    if (result.kind === 'error') messages.push(result.message);
    else if (result.value === false) return { kind: 'misses' };
  }
  return messages.length > 0 ? { kind: 'error', messages } : { kind: 'hits' };
}

/** The variables of expressions, and what all of them together may still cost. */
export interface Evaluation {
  readonly values: Readonly<Record<string, unknown>>;
  readonly cost: { left: number };
}

/** @param authorize undefined if the expressions cannot ask the authorizer */
export function evaluationOf(
  { variables }: PolicyExpressions,
  question: Question,
  namespaceObject: ApiObject | undefined,
  authorize: CelAuthorize | undefined,
  params: ApiObject | undefined,
  left = POLICY_COST_LIMIT,
): Evaluation {
  const { type, subresource, namespace, name } = question.attributes;
  const values: Record<string, unknown> = {
    object: jsonOf(question.object),
    oldObject: jsonOf(question.oldObject),
    request: admissionRequest(question),
    namespaceObject: jsonOf(namespaceObject),
    params: jsonOf(params),
    ...(authorize === undefined ? {} : authorizerValues(authorize, type, { subresource, namespace, name })),
  };
  const evaluation = { values, cost: { left } };
  const evaluated =
    ({ name: variable, expression }: (typeof variables)[number]) =>
    () => {
      try {
        return run(expression, evaluation);
      } catch (error) {
        if (!(error instanceof CelError) || error instanceof CelCostError) throw error;
        throw new CelError(`composited variable "${variable}" fails to evaluate: ${error.message}`);
      }
    };
  values.variables = lazyCelMap(new Map(variables.map((variable) => [variable.name, evaluated(variable)])));
  return evaluation;
}

const jsonOf = (object: ApiObject | undefined): unknown =>
  object === undefined ? null : celValue(toJson(object));

/** Each evaluation, even of a variable, has a separate limit. @throws CelError */
function run({ program }: Expression, { values, cost }: Evaluation): unknown {
  if (program instanceof CelError) throw program;
  const budget = createCelBudget();
  try {
    return program.run(values, budget);
  } finally {
    cost.left -= CEL_COST_LIMIT - budget.remaining;
  }
}

type Outcome =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'error'; readonly message: string }
  /** The policy may cost no more. */
  | { readonly kind: 'exhausted'; readonly message: string };

const EXHAUSTED: Outcome = {
  kind: 'exhausted',
  message: 'validation failed due to running out of cost budget, no further validation rules will be run',
};

export function outcome(expression: Expression, evaluation: Evaluation): Outcome {
  try {
    const value = run(expression, evaluation);
    return evaluation.cost.left < 0 ? EXHAUSTED : { kind: 'value', value };
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    if (evaluation.cost.left < 0) return EXHAUSTED;
    return {
      kind: 'error',
      message: `expression '${expression.text}' resulted in error: ${error.message}`,
    };
  }
}

function evaluateMessages({ validations }: PolicyExpressions, evaluation: Evaluation): readonly unknown[] {
  const messages: unknown[] = [];
  for (const { messageExpression } of validations) {
    const result = messageExpression === undefined ? undefined : outcome(messageExpression, evaluation);
    if (result?.kind === 'exhausted') return [];
    messages.push(result?.kind === 'value' ? result.value : undefined);
  }
  return messages;
}

function messageOf({ expression, message }: Validation, evaluated: unknown): string {
  const otherwise = trimSpace(message) || `failed expression: ${expression.text}`;
  const text = typeof evaluated === 'string' ? trimSpace(evaluated) : '';
  return text === '' || text.includes('\n') || Buffer.byteLength(text) > LONGEST_MESSAGE ? otherwise : text;
}

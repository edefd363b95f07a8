import { CelCostError } from '../../../cel/cel-error.ts';
import { celAuthorizer, celResourceCheck, type CelAuthorize } from '../../../cel/library/authorizer.ts';
import { CelError } from '../../../cel/cel.ts';
import { celValue, lazyCelMap } from '../../../cel/values/maps.ts';
import { toJson, type ApiObject } from '../api-object.ts';
import { admissionRequest, type Question } from '../webhooks/admission-review.ts';
import type { Expression, PolicyExpressions, Validation } from './compile-policy.ts';

/** A validation that failed, or could not be evaluated. */
export interface Failure {
  readonly message: string;
  readonly reason: string;
  readonly index: number;
}

export interface Evaluated {
  readonly failures: readonly Failure[];
  /** By their keys. */
  readonly auditAnnotations: readonly (readonly [key: string, value: string])[];
}

const NOTHING: Evaluated = { failures: [], auditAnnotations: [] };
const LONGEST_MESSAGE = 5 * 1024;

/**
 * Evaluates a policy on one request, as k8s.io/apiserver/pkg/admission/plugin/policy/validating does. An error counts
 * as a failure, or is ignored.
 */
export function evaluatePolicy(
  policy: PolicyExpressions & { readonly ignoresFailures: boolean },
  question: Question,
  namespaceObject: ApiObject | undefined,
  authorize: CelAuthorize,
  params?: ApiObject,
): Evaluated {
  const values = valuesOf(policy, question, namespaceObject, authorize, params);
  const broken = (messages: readonly string[]): readonly Failure[] =>
    policy.ignoresFailures || messages.length === 0
      ? []
      : [{ message: joinMessages(messages), reason: 'Invalid', index: 0 }];

  const match = evaluateConditions(policy, values);
  if (match.kind === 'error') return { ...NOTHING, failures: broken(match.messages) };
  if (match.kind === 'misses') return NOTHING;

  const failures = policy.validations.flatMap((validation, index): readonly Failure[] => {
    const result = outcome(validation.expression, values);
    if (result.kind === 'error') return broken([result.message]).map((one) => ({ ...one, index }));
    if (result.value === true) return [];
    return [{ message: messageOf(validation, values), reason: validation.reason, index }];
  });
  const annotations = policy.auditAnnotations.map(({ key, expression }) => ({
    key,
    result: outcome(expression, values),
  }));
  return {
    failures: [
      ...failures,
      ...annotations.flatMap(({ result }) => (result.kind === 'error' ? broken([result.message]) : [])),
    ],
    auditAnnotations: annotations.flatMap(({ key, result }) =>
      result.kind === 'value' && typeof result.value === 'string' && result.value.trim() !== ''
        ? [[key, result.value.trim()] as const]
        : [],
    ),
  };
}

export type PolicyMatch =
  { readonly kind: 'hits' | 'misses' } | { readonly kind: 'error'; readonly messages: readonly string[] };

/** Whether all match conditions hold. The API server shows no namespace to them. */
export function evaluateConditions({ conditions }: PolicyExpressions, values: Values): PolicyMatch {
  const messages: string[] = [];
  for (const condition of conditions) {
    const result = outcome(condition, { ...values, namespaceObject: null });
    if (result.kind === 'error') messages.push(result.message);
    else if (result.value === false) return { kind: 'misses' };
  }
  return messages.length > 0 ? { kind: 'error', messages } : { kind: 'hits' };
}

export type Values = Readonly<Record<string, unknown>>;

/** The variables of the expressions. */
export function valuesOf(
  { variables }: PolicyExpressions,
  question: Question,
  namespaceObject: ApiObject | undefined,
  authorize: CelAuthorize,
  params: ApiObject | undefined,
): Values {
  const { type, subresource, namespace, name } = question.attributes;
  const values: Record<string, unknown> = {
    object: jsonOf(question.object),
    oldObject: jsonOf(question.oldObject),
    request: admissionRequest(question),
    namespaceObject: jsonOf(namespaceObject),
    params: jsonOf(params),
    authorizer: celAuthorizer(authorize),
    'authorizer.requestResource': celResourceCheck(authorize, {
      ...{ group: type.group, resource: type.resource, subresource, namespace, name },
    }),
  };
  const evaluated =
    ({ name: variable, expression }: (typeof variables)[number]) =>
    () => {
      try {
        return run(expression, values);
      } catch (error) {
        if (!(error instanceof CelError) || error instanceof CelCostError) throw error;
        throw new CelError(`composited variable "${variable}" fails to evaluate: ${error.message}`);
      }
    };
  values.variables = lazyCelMap(new Map(variables.map((variable) => [variable.name, evaluated(variable)])));
  return values;
}

const jsonOf = (object: ApiObject | undefined): unknown =>
  object === undefined ? null : celValue(toJson(object));

/** Each evaluation has its own budget. @throws CelError */
function run({ program }: Expression, values: Values): unknown {
  if (program instanceof CelError) throw program;
  return program.run(values);
}

type Outcome =
  { readonly kind: 'value'; readonly value: unknown } | { readonly kind: 'error'; readonly message: string };

export function outcome(expression: Expression, values: Values): Outcome {
  try {
    return { kind: 'value', value: run(expression, values) };
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    return {
      kind: 'error',
      message: `expression '${expression.text}' resulted in error: ${error.message}`,
    };
  }
}

function messageOf({ expression, message, messageExpression }: Validation, values: Values): string {
  const otherwise = message.trim() === '' ? `failed expression: ${expression.text}` : message.trim();
  if (messageExpression === undefined) return otherwise;
  const result = outcome(messageExpression, values);
  if (result.kind === 'error' || typeof result.value !== 'string') return otherwise;
  const text = result.value.trim();
  return text === '' || text.includes('\n') || Buffer.byteLength(text) > LONGEST_MESSAGE ? otherwise : text;
}

/** Several messages as one. */
export const joinMessages = (messages: readonly string[]): string => {
  const unique = [...new Set(messages)];
  return unique.length === 1 ? unique.join('') : `[${unique.join(', ')}]`;
};

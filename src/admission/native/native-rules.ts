import { compileCel, onCelError, readsField } from '../../cel/cel.ts';
import { MUTATION_MESSAGES } from '../../cel/compile/compiler.ts';
import { trimSpace } from '../../cel/library/text.ts';
import type { CompiledPolicy, CompiledRule } from '../policy/compiled-policy.ts';
import { KEEP } from '../policy/immutable/immutable.ts';
import { fixedMessage, LONGEST_MADE_MESSAGE, UNPRINTABLE } from '../policy/rules/rules.ts';
import { AUTHORIZER, NAMES, typesOf } from '../policy/expressions/compile-expression.ts';
import { type CompiledExpression, variablesOf, withVariables } from '../policy/expressions/expression.ts';
import {
  enclosed,
  inWebhook,
  inWords,
  type NativeCheck,
  type NativeVariable,
  type Validation,
} from './native-check.ts';
import type { NativeExceptions } from './native-exceptions.ts';
import { paramsProblem } from './native-params.ts';
import { distinguishingIn, variablesProblem } from './variable-types.ts';
import { isOfCustomKinds } from './changes/built-in-fields.ts';
import type { FieldPath } from '../../json/field-path.ts';

/** @param problem why the webhook keeps all of them, if it does */
export function ruleValidations(
  policy: CompiledPolicy,
  { guard }: NativeExceptions,
  problem: string | undefined,
): readonly NativeCheck[] {
  return policy.rules.map((rule): NativeCheck => {
    const check = `rule ${rule.name}`;
    const reason = problem ?? problemOf(policy, rule);
    if (reason !== undefined) return inWebhook(check, reason);
    const { expression, ...validation } = validationOf(policy, rule);
    return {
      check,
      by: 'APIServer',
      part: rule.expression.reads.params ? 'params' : 'policies',
      validations: [{ expression: guard(expression, 'rules', rule.name), ...validation }],
    };
  });
}

const TYPES = typesOf([...NAMES, 'params', 'refs', ...AUTHORIZER]);

function problemOf(policy: CompiledPolicy, rule: CompiledRule): string | undefined {
  const { expression, message, messageExpression, reason } = rule;
  if (reason === 'Unauthorized') return 'the API server does not support the reason Unauthorized';
  if (message?.includes('\n') === true) return 'its message has a line break';
  if (message !== undefined && (message === '' || message !== trimSpace(message)))
    return 'its message is blank, or has spaces around it';
  if (expression.reads.params) {
    const problem = paramsProblem(policy);
    if (problem !== undefined) return problem;
  } else if (messageExpression?.reads.params === true) return 'only its message reads params';
  if (policy.enforcement === 'Warn' && /\n|\/\//.test(expression.program.expression))
    return 'its expression has a line break or a comment, and the API server omits a warning that quotes one';
  const parts = messageExpression === undefined ? [expression] : [expression, messageExpression];
  return numberProblem(policy, [expression]) ?? expressionProblem(policy, parts);
}

/** @param ofMutation whether they become part of a MutatingAdmissionPolicy, which has one more function */
export function expressionProblem(
  policy: CompiledPolicy,
  parts: readonly CompiledExpression[],
  ofMutation = false,
): string | undefined {
  for (const { reads } of parts)
    if (reads.refs.size > 0) return `it reads refs.${[...reads.refs].join(', refs.')}`;
  const programs = parts.map(({ program }) => program);
  const problem = variablesProblem(policy, programs);
  if (problem !== undefined) return problem;
  for (const program of withVariables(policy, programs)) {
    if (policy.match.operations.includes('DELETE') && readsField(program, 'request', 'name'))
      return 'it reads request.name, which the API server omits when a collection is deleted';
    if (!ofMutation && program.names.has('jsonpatch'))
      return 'the API server supports jsonpatch.escapeKey only in mutations';
    const { needs } = program;
    if (needs !== undefined && needs.minor > (policy.server ?? needs.minor))
      return `the API server answers ${needs.name} as Gatehouse does only from Kubernetes 1.${needs.minor}`;
    const mixed = mixedLiteral(program.expression);
    if (mixed !== undefined) return `the API server refuses its expression: ${mixed}`;
  }
  return undefined;
}

/**
 * The API server evaluates a number as the user wrote it, but stores 2.0 as 2, and sends that to the webhook. Built-in kinds
 * have typed fields, where 2.0 is an int or refused.
 */
export function numberProblem(
  policy: CompiledPolicy,
  parts: readonly CompiledExpression[],
  harmless: readonly string[] = [],
): string | undefined {
  if (!policy.match.apiGroups.some(isOfCustomKinds)) return undefined;
  const programs = parts.map(({ program }) => program);
  const name = withVariables(policy, programs)
    .flatMap((program) => distinguishingIn(policy, program))
    .find((one) => !harmless.includes(one));
  const shown = name?.replaceAll('_', '');
  return shown && `${shown} may treat a number that a user wrote as 2.0 unlike 2; write int(…) or double(…)`;
}

/** Gatehouse accepts lists and maps with values of several types, which the API server refuses. */
const mixedLiteral = (expression: string): string | undefined =>
  onCelError(
    () => void compileCel(expression, TYPES, { uniformLiterals: true }),
    ({ message }) => message,
  );

export function usedVariables(
  policy: CompiledPolicy,
  expressions: readonly string[],
): readonly NativeVariable[] {
  const programs = expressions.map((text) => compileCel(text, TYPES, { messages: MUTATION_MESSAGES }));
  return variablesOf(policy, programs).map(({ name, expression }) => {
    return { name, expression: expression.program.expression };
  });
}

function validationOf(policy: CompiledPolicy, rule: CompiledRule): Validation {
  const { expression, messageExpression, reason = 'Forbidden', field = '' } = rule;
  const named = (text: string) => (rule.name.startsWith('rules[') ? text : `${text} (rule ${rule.name})`);
  const { program } = expression;
  return {
    expression:
      program.type === 'bool' ? program.expression : `${enclosed(program.expression)} ? true : false`,
    message: inWords(policy, field, named(fixedMessage(rule))),
    ...(messageExpression === undefined
      ? {}
      : { messageExpression: messageFor(messageExpression, inWords(policy, field, named(HERE))) }),
    reason: reason === 'Unauthorized' ? 'Forbidden' : reason,
  };
}

const HERE = '\u0000';

/** Like the webhook, uses the fixed message if this one is blank, unprintable, not a string, or longer than the limit. */
function messageFor({ program }: CompiledExpression, around: string): string {
  const [before = '', after = ''] = around.split(HERE).map((part) => JSON.stringify(part));
  const isUsable = `said != '' && bytes(said).size() <= ${LONGEST_MADE_MESSAGE} && !said.matches(r'${UNPRINTABLE}')`;
  return (
    `[dyn(${program.expression}\n)].map(said, type(said) == string ? string(said).trim() : '')` +
    `.map(said, ${isUsable} ? ${before} + said + ${after} : '')[0]`
  );
}

/** The webhook's message also contains the new value. @param problem why the webhook keeps all of them, if it does */
export function immutableValidations(
  policy: CompiledPolicy,
  { guard }: NativeExceptions,
  problem: string | undefined,
): readonly NativeCheck[] {
  return policy.immutable.map(({ path, from }): NativeCheck => {
    const check = `immutable ${path.text}`;
    if (problem !== undefined) return inWebhook(check, problem);
    const [before, after] = ['oldObject', 'object'].map((root) => valueAt(root, path));
    const set = from === 'first-value' ? `${before} == [] || ` : '';
    const validation = {
      expression: guard(`request.operation != 'UPDATE' || ${set}${before} == ${after}`, 'immutable'),
      message: inWords(policy, path.text, `was set and cannot be changed: ${KEEP}`),
      messageExpression: immutableMessage(policy, path, String(before), String(after)),
      reason: 'Forbidden' as const,
    };
    return { check, by: 'APIServer', part: 'policies', validations: [validation] };
  });
}

function immutableMessage(
  policy: CompiledPolicy,
  { text }: FieldPath,
  before: string,
  after: string,
): string {
  const said = (message: string) => JSON.stringify(inWords(policy, text, message));
  const unset = said('was not set when the object was created and cannot be set later: leave it out');
  const removed = said(`was set and cannot be removed: ${KEEP}`);
  return `${before} == [] ? ${unset} : ${after} == [] ? ${removed} : ${said(`was set and cannot be changed: ${KEEP}`)}`;
}

/** A list of the value, or an empty one: the API uses null for a field that is not set. */
const valueAt = (root: string, { segments }: FieldPath): string =>
  `[dyn(${root})]${segments.map(accessOf).join('')}.filter(value, value != null)`;

/** Total for every JSON value. `compileImmutable` refuses `[*]`. */
function accessOf(segment: FieldPath['segments'][number]): string {
  switch (segment.kind) {
    case 'each':
      throw new Error('a list of unknown length cannot be immutable');
    case 'index':
      return `.map(value, type(value) == list && value.size() > ${segment.index}, value[${segment.index}])`;
    case 'field': {
      const name = JSON.stringify(segment.name);
      return `.map(value, type(value) == map && ${name} in value, value[${name}])`;
    }
  }
}

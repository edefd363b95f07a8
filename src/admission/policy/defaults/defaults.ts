import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { pathProblem, tryPath, type Problem } from '../problem.ts';
import type { ExpressionCompiler } from '../expressions/compile-expression.ts';
import type { CompiledDefault, CompiledMatch, CompiledPolicy } from '../compiled-policy.ts';
import { type FieldPath, fill } from '../../../json/field-path.ts';
import { isJsonArray, isJsonObject, type JsonValue, type JsonObject } from '../../../json/json.ts';
import { isLabelValue, isQualifiedName } from '../../../json/names.ts';
import { writes } from '../../review/request.ts';
import { splitResource } from '../match/resource-pattern.ts';
import { quote } from '../../../json/printable.ts';
import { CelError } from '../../../cel/cel.ts';
import { celToJson } from '../../../cel/values/cel-to-json.ts';
import type { Evaluate } from '../expressions/expression.ts';
import { MutationError } from '../mutations/mutations.ts';

/** Compiles the defaults and reports their problems. */
export function compileDefaults(
  { defaults = [] }: AdmissionPolicySpec,
  match: CompiledMatch,
  { compile }: Pick<ExpressionCompiler, 'compile'>,
  problems: Problem[],
): readonly CompiledDefault[] {
  const compiled = defaults.flatMap((rule, index): readonly CompiledDefault[] => {
    const { path: text, value } = rule;
    const where = `spec.defaults[${index}]`;
    const path = tryPath(text, `${where}.path`, problems);
    if (path === undefined) return [];
    problems.push(...targetProblems(path, value, match, where));
    if (rule.expression !== undefined) {
      const expression = compile(rule.expression, `${where}.expression`, 'any');
      if (value === undefined)
        return expression === undefined ? [] : [{ kind: 'expression', path, expression }];
      problems.push({ reason: 'InvalidPolicy', where, message: 'write either value or expression' });
      return [];
    }
    if (isKeptExactly(value)) return [{ kind: 'value', path, value }];
    problems.push({
      reason: 'InvalidPolicy',
      where: `${where}.value`,
      message: 'write a value, without null and without integers beyond 2^53, or an expression',
    });
    return [];
  });
  if (defaults.length > 0 && !match.operations.some(writes)) {
    problems.push({
      reason: 'InvalidPolicy',
      where: 'spec.match.operations',
      message: 'has neither CREATE nor UPDATE, so spec.defaults would never fill anything: add one of them',
    });
  }
  return compiled;
}

function targetProblems(
  path: FieldPath,
  value: unknown,
  match: CompiledMatch,
  where: string,
): readonly Problem[] {
  const [first] = path.segments;
  const last = path.segments.at(-1);
  if (first?.kind !== 'field')
    return [pathProblem(`${where}.path`, 'starts inside a list: start with a field such as spec')];
  if (last?.kind !== 'field') {
    return [
      pathProblem(
        `${where}.path`,
        'ends in an element of a list, and defaults never add elements: end it in a field',
      ),
    ];
  }
  switch (first.name) {
    case 'apiVersion':
    case 'kind':
      return [pathProblem(`${where}.path`, 'the API server sets it: default another field')];
    case 'metadata':
      return metadataProblems(path, value, where);
    case 'status':
      return match.resources.every((resource) => splitResource(resource).subResource === 'status')
        ? []
        : [
            pathProblem(
              `${where}.path`,
              'the API server takes a status only through the status subresource: match that alone, e.g. servers/status',
            ),
          ];
    default:
      return [];
  }
}

/** An invalid label or annotation would make the API server reject every request. */
function metadataProblems(path: FieldPath, value: unknown, where: string): readonly Problem[] {
  const [, map, key, more] = path.segments;
  if (map?.kind !== 'field' || (map.name !== 'labels' && map.name !== 'annotations') || more !== undefined) {
    return [pathProblem(`${where}.path`, 'of metadata, only labels and annotations can be defaulted')];
  }
  const entries =
    key?.kind === 'field'
      ? [[key.name, value] as const]
      : isJsonObject(value)
        ? Object.entries(value)
        : undefined;
  const isValue = (text: unknown) =>
    typeof text === 'string' && (map.name === 'annotations' || isLabelValue(text));
  const wrong = entries?.find(([name, text]) => !isQualifiedName(name) || !isValue(text));
  if (entries !== undefined && wrong === undefined) return [];
  const shown = wrong === undefined ? quote(value) : `${quote(wrong[0])}: ${quote(wrong[1])}`;
  return [
    { reason: 'InvalidPolicy', where, message: `${shown} is not a valid entry of metadata.${map.name}` },
  ];
}

/**
 * Policies are read as plain JSON, so an integer beyond 2^53 has already lost digits. Null counts as absent, so it
 * cannot be set.
 */
export function isKeptExactly(value: unknown): value is JsonValue {
  const pending = [value];
  while (pending.length > 0) {
    const item = pending.pop();
    if (isJsonArray(item) || isJsonObject(item)) {
      for (const child of Object.values(item)) pending.push(child);
    } else if (typeof item === 'number') {
      if (Number.isInteger(item) && !Number.isSafeInteger(item)) return false;
    } else if (typeof item !== 'string' && typeof item !== 'boolean' && typeof item !== 'bigint') {
      return false;
    }
  }
  return true;
}

/**
 * Sets the policy's defaults where the object lacks the field. Idempotent; never changes `object` itself.
 *
 * An expression that yields null leaves its field absent.
 *
 * @param evaluateOn evaluates expressions against the given object
 * @throws MutationError if an expression fails
 */
export function fillDefaults(
  { name, defaults }: CompiledPolicy,
  object: JsonObject,
  evaluateOn: (object: JsonObject) => Evaluate,
): JsonObject {
  return defaults.reduce((filled, rule) => {
    if (rule.kind === 'value') return fill(filled, rule.path, rule.value);
    // Check first whether the field is absent: the expression of an unused default must not fail the request.
    if (fill(filled, rule.path, true) === filled) return filled;
    try {
      const value = celToJson(evaluateOn(filled)(rule.expression));
      return value === null ? filled : fill(filled, rule.path, value);
    } catch (error) {
      if (!(error instanceof CelError)) throw error;
      throw new MutationError(
        `the default of ${rule.path.text} could not be computed: ${error.message}`,
        name,
        error,
      );
    }
  }, object);
}

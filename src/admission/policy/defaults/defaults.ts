import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { requireWrites, tryPath, type Report } from '../problem.ts';
import type { CompileExpression } from '../expressions/compile-expression.ts';
import type { CompiledDefault, CompiledMatch, CompiledPolicy } from '../compiled-policy.ts';
import { type FieldPath, fill } from '../../../json/field-path.ts';
import { isJsonArray, isJsonObject, type JsonValue, type JsonObject } from '../../../json/json.ts';
import { isLabelValue, isQualifiedName } from '../../../json/kube-object.ts';
import { splitResource } from '../match/resource-pattern.ts';
import { quote } from '../../../json/printable.ts';
import { CelError } from '../../../cel/cel.ts';
import { celToJson } from '../../../cel/values/cel-to-json.ts';
import { type Making, MutationError } from '../mutations/mutations.ts';

export function compileDefaults(
  { defaults = [] }: AdmissionPolicySpec,
  match: CompiledMatch,
  compile: CompileExpression,
  report: Report,
): readonly CompiledDefault[] {
  const compiled = defaults.flatMap((rule, index): readonly CompiledDefault[] => {
    const { value } = rule;
    const where = `spec.defaults[${index}]`;
    const path = tryPath(rule.path, `${where}.path`, report);
    if (path === undefined) return [];
    const ofMetadata = checkTarget(path, match, where, report);
    const isEntry = ofMetadata && path.segments.length === 3;
    const known = rule.expression === undefined ? value : isEntry ? '' : {};
    if (ofMetadata) checkMetadata(path, known, where, report);
    if (rule.expression !== undefined) {
      const result = isEntry ? 'string' : 'any';
      const expression = compile(rule.expression, `${where}.expression`, result, { refs: false });
      if (value !== undefined) report(where, 'write either value or expression');
      else if (expression !== undefined) return [{ kind: 'expression', path, expression }];
      return [];
    }
    if (isKeptExactly(value)) return [{ kind: 'value', path, value }];
    report(
      `${where}.value`,
      'write a value, without null and without integers beyond 2^53, or an expression',
    );
    return [];
  });
  if (defaults.length > 0)
    requireWrites(match, 'spec.defaults would never fill anything: add one of them', report);
  return compiled;
}

/** Whether the path leads to labels or annotations. */
function checkTarget(path: FieldPath, match: CompiledMatch, where: string, report: Report): boolean {
  const [first, map, , more] = path.segments;
  const isOfMetadata = first?.kind === 'field' && first.name === 'metadata';
  const isMap = map?.kind === 'field' && (map.name === 'labels' || map.name === 'annotations');
  const isWritable = isMap && more === undefined;
  const flaw =
    isOfMetadata && !isWritable
      ? 'of metadata, only labels and annotations can be defaulted'
      : targetFlaw(path, match);
  if (flaw !== undefined) report(`${where}.path`, flaw, 'InvalidPath');
  return isOfMetadata && flaw === undefined;
}

function targetFlaw({ segments }: FieldPath, { resources }: CompiledMatch): string | undefined {
  const [first] = segments;
  if (first?.kind !== 'field') return 'starts inside a list: start with a field such as spec';
  if (segments.at(-1)?.kind !== 'field')
    return 'ends in an element of a list, and defaults never add elements: end it in a field';
  if (first.name === 'apiVersion' || first.name === 'kind')
    return 'the API server sets it: default another field';
  const isStatus = (resource: string) => splitResource(resource).subResource === 'status';
  return first.name === 'status' && !resources.every(isStatus)
    ? 'the API server takes a status only through the status subresource: match that alone, e.g. servers/status'
    : undefined;
}

/** An invalid label or annotation would make the API server reject every request. */
function checkMetadata({ segments }: FieldPath, value: unknown, where: string, report: Report): void {
  const [, map, key] = segments.map((segment) => (segment.kind === 'field' ? segment.name : ''));
  const given = key === undefined ? value : { [key]: value };
  const entries = isJsonObject(given) ? Object.entries<unknown>(given) : undefined;
  const isValue = (text: unknown) =>
    typeof text === 'string' && (map === 'annotations' || isLabelValue(text));
  const wrong = entries?.find(([name, text]) => !isQualifiedName(name) || !isValue(text));
  if (entries !== undefined && wrong === undefined) return;
  const shown = wrong === undefined ? quote(value) : `${quote(wrong[0])}: ${quote(wrong[1])}`;
  report(where, `${shown} is not a valid entry of metadata.${map ?? ''}`);
}

/** Integers beyond 2^53 have lost digits in plain JSON, and null counts as absent. */
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
 * Idempotent; never changes `object`. An expression that yields null leaves its field absent.
 * @throws MutationError if an expression fails
 */
export function fillDefaults(
  { name, defaults }: CompiledPolicy,
  object: JsonObject,
  { evaluateOn, make }: Omit<Making, 'lists'>,
): JsonObject {
  const filledBy = (rule: CompiledDefault, filled: JsonObject) => {
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
  };
  return defaults.reduce((filled, rule) => make(rule, filled, () => filledBy(rule, filled)), object);
}

import type { CelBudget } from '../../cel/values/values.ts';
import { CelError, type CelProgram } from '../../cel/cel.ts';
import { valueOfOptional, celToJson } from '../../cel/values/cel-to-json.ts';
import { formatPath, InvalidPath, parsePath, type Segment } from '../../json/field-path.ts';
import { isJsonObject, valueIn, type JsonObject, type JsonValue } from '../../json/json.ts';
import { isLabelValue, isQualifiedName } from '../../json/kube-object.ts';
import { quote } from '../../json/printable.ts';
import { ConversionFailure } from './converter.ts';
import { mapAt, NotAnObject, withFieldAt, withoutFieldAt } from './edit.ts';
import type { ConversionStep } from '../../api/conversion-policy.ts';
import { isPreservedKey } from './preserved-annotation.ts';

/** Does not change its input. @throws ConversionFailure, to which the caller adds the step and the object */
export type RunStep = (object: JsonObject, budget: CelBudget) => JsonObject;

interface StepValue {
  readonly value: JsonValue | undefined;
  readonly program: CelProgram | undefined;
  readonly condition: CelProgram | undefined;
}

/** @param keep how many parents of `from` to keep when they become empty */
export function moveStep(from: StepPath, to: StepPath, keep: number): RunStep {
  return changing(
    from,
    (container) => {
      const value = valueIn(container, ...from.fields);
      if (value === undefined || !isJsonObject(container)) return container;
      return withFieldAt(withoutFieldAt(container, from.fields, keep), to.fields, value);
    },
    to.text,
  );
}

export function removeStep(path: StepPath): RunStep {
  // The API server stores no empty map of labels or annotations.
  const keep = path.fields[0] === 'metadata' && path.list.length === 0 ? 1 : path.fields.length;
  return changing(path, (container) =>
    isJsonObject(container) ? withoutFieldAt(container, path.fields, keep) : container,
  );
}

/** Writes the value everywhere, or only where the field is absent. An expression without a value changes nothing. */
export function writeStep(path: StepPath, value: StepValue, where: 'everywhere' | 'where absent'): RunStep {
  const { fields } = path;
  return (object, budget) =>
    changing(path, (container, item) => {
      const canHold = fields.length === 0 || isJsonObject(container);
      if (where === 'where absent' && (!canHold || valueIn(container, ...fields) !== undefined))
        return container;
      const next = valueOf(value, object, item, budget);
      if (next === undefined) return container;
      checkMark(path, next);
      if (fields.length === 0) return next;
      if (!isJsonObject(container)) throw new NotAnObject([], container);
      return withFieldAt(container, fields, next);
    })(object, budget);
}

/** Changes each container of the path: the object itself, or the elements of the list that the path contains. */
function changing(
  { list, text }: StepPath,
  change: (container: JsonValue, item: JsonValue | undefined) => JsonValue,
  written = text,
): RunStep {
  return (object) => {
    const changed = mapAt(object, list, (container, keys) => {
      try {
        return change(container, list.length === 0 ? undefined : container);
      } catch (error) {
        if (!(error instanceof NotAnObject)) throw error;
        const where = formatPath([...keys, ...error.path]);
        throw new ConversionFailure(
          `${where} is ${quote(error.found)} and not an object, so ${written} cannot be written; fix the stored object, or move or remove ${where} first`,
        );
      }
    });
    return isJsonObject(changed) ? changed : object;
  };
}

function valueOf(
  { value, program, condition }: StepValue,
  object: JsonObject,
  item: JsonValue | undefined,
  budget: CelBudget,
): JsonValue | undefined {
  const bindings = item === undefined ? { object } : { object, item };
  if (condition !== undefined && evaluate(condition, bindings, budget, 'when: ') !== true) return undefined;
  return program === undefined ? value : evaluate(program, bindings, budget);
}

function evaluate(
  program: CelProgram,
  bindings: Readonly<Record<string, JsonValue>>,
  budget: CelBudget,
  prefix = '',
): JsonValue | undefined {
  try {
    const result = valueOfOptional(program.evaluate(bindings, budget));
    return result === undefined || result === null ? undefined : celToJson(result);
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    const advice = adviceFor(program.expression, absentKey(error), prefix);
    throw new ConversionFailure(`${prefix}${error.message}; ${advice}`, { cause: error });
  }
}

/** The field that the expression did not find; undefined: another error. */
export const absentKey = (error: unknown): string | undefined =>
  error instanceof CelError ? /^no such key: (.*)$/s.exec(error.message)?.[1] : undefined;

/** `has(a.b.c)` fails without `a.b`, so each parent needs its own guard. */
function adviceFor(expression: string, absent: string | undefined, prefix: string): string {
  const paths = [...expression.matchAll(/\w+(?:\.\w+)+/g)].map(([path]) => path.split('.'));
  const path = absent === undefined ? undefined : paths.find((names) => names.indexOf(absent) > 0);
  const parent = path?.slice(0, path.indexOf(absent ?? '')).join('.') ?? 'object.spec';
  const field = path === undefined ? 'field' : absent;
  const guard = `has(${parent}.${field})`;
  return prefix === ''
    ? `limit the step to some objects, e.g. when: ${guard}`
    : `guard what can be absent: ${guard} && …, or ${parent}.?${field}`;
}

function checkMark({ segments, text }: StepPath, value: JsonValue): void {
  const [first, map] = segments;
  if (first?.kind !== 'field' || first.name !== 'metadata' || map?.kind !== 'field') return;
  if (typeof value !== 'string')
    throw new ConversionFailure(
      `${text} must be a string, not ${quote(value)}; wrap the expression in string(…)`,
    );
  if (map.name === 'labels' && !isLabelValue(value))
    throw new ConversionFailure(
      `${text}: ${quote(value)} is not a valid label value (at most 63 letters, digits, -, _ and .); use an annotation`,
    );
}

type Inversion =
  | { readonly kind: 'inverse'; readonly steps: readonly ConversionStep[] }
  | { readonly kind: 'none'; readonly index: number; readonly verb: 'set' | 'remove' };

/** Inverts moves in the opposite order. Defaults don't need an inverse, because the absence of a field is preserved. */
export function invert(steps: readonly ConversionStep[]): Inversion {
  const inverse: ConversionStep[] = [];
  for (const [index, step] of steps.entries()) {
    if (step.set !== undefined) return { kind: 'none', index, verb: 'set' };
    if (step.remove !== undefined) return { kind: 'none', index, verb: 'remove' };
    if (step.move !== undefined) inverse.unshift({ move: { from: step.move.to, to: step.move.from } });
  }
  return { kind: 'inverse', steps: inverse };
}

/** The path of a step: `spec.disks[*].size.bytes` is the list `spec.disks[*]` and below each element the fields `size`, `bytes`. */
export interface StepPath {
  readonly text: string;
  readonly segments: readonly Segment[];
  /** The path up to the last `[*]`; empty if there is none. */
  readonly list: readonly Segment[];
  readonly fields: readonly string[];
}

export function parseStepPath(text: string): StepPath {
  const { segments } = parsePath(text);
  const fields: string[] = [];
  let list: readonly Segment[] = [];
  for (const [index, segment] of segments.entries()) {
    switch (segment.kind) {
      case 'field':
        fields.push(segment.name);
        break;
      case 'each':
        list = segments.slice(0, index + 1);
        fields.length = 0;
        break;
      case 'index':
        throw new InvalidPath(
          `${quote(text)} selects one element of a list; write [*] for all elements, or use set with an expression for the list`,
        );
    }
  }
  checkRoot(segments);
  return { text, segments, list, fields };
}

function checkRoot([first, map, key, more]: readonly Segment[]): void {
  if (first?.kind !== 'field') throw new InvalidPath('starts inside a list: start with a field such as spec');
  if (first.name === 'apiVersion' || first.name === 'kind')
    throw new InvalidPath(`${first.name} cannot be changed by a step`);
  if (first.name !== 'metadata') return;
  if (map?.kind !== 'field' || (map.name !== 'labels' && map.name !== 'annotations') || more !== undefined)
    throw new InvalidPath(
      'a conversion can change only the labels and annotations of metadata, because the API server restores or refuses the rest',
    );
  if (key?.kind !== 'field')
    throw new InvalidPath(`a key is missing; write a path such as metadata.${map.name}["example.com/rack"]`);
  if (!isQualifiedName(key.name))
    throw new InvalidPath(`${quote(key.name)} is not a valid key of ${map.name}`);
  if (isPreservedKey(key.name))
    throw new InvalidPath(`the annotation ${key.name} is reserved for values that Gatehouse preserves`);
}

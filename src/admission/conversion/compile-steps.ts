import type { ConversionStep } from '../../api/conversion-policy.ts';
import { compileCel, type CelOptions, type CelProgram, onCelError } from '../../cel/cel.ts';
import type { CelBudget } from '../../cel/values/values.ts';
import { isKeptExactly } from '../policy/defaults/defaults.ts';
import { InvalidPath } from '../../json/field-path.ts';
import type { JsonObject, JsonValue } from '../../json/json.ts';
import { ConversionFailure, type Report } from './converter.ts';
import { moveStep, removeStep, writeStep, parseStepPath, type RunStep, type StepPath } from './step.ts';
import { schemaAt } from './structural-schema.ts';

export interface CompiledStep {
  readonly where: string;
  readonly run: RunStep;
  readonly reads: readonly StepPath[];
  readonly writes: readonly StepPath[];
}

/** @param target the schema of the version that the steps produce */
export function compileSteps(
  steps: readonly ConversionStep[],
  where: string,
  target: JsonObject | undefined,
  report: Report,
): readonly CompiledStep[] {
  return steps.flatMap((step, index) => {
    const at = `${where}[${index}]`;
    const compiled = compileStep(step, at, target, report);
    return compiled === undefined ? [] : [{ where: at, ...compiled }];
  });
}

type StepParts = Omit<CompiledStep, 'where'>;

function compileStep(
  { move, default: filled, set, remove }: ConversionStep,
  where: string,
  target: JsonObject | undefined,
  report: Report,
): StepParts | undefined {
  if (move !== undefined) return compileMove(move, `${where}.move`, target, report);
  if (filled !== undefined) return compileDefault(filled, `${where}.default`, report);
  if (set !== undefined) {
    const path = tryStepPath(set.path, `${where}.set.path`, report);
    return compileWrite(path, set, `${where}.set`, 'everywhere', report);
  }
  if (remove !== undefined) {
    const path = tryFieldPath(remove.path, `${where}.remove.path`, report);
    return path && { run: removeStep(path), reads: [path], writes: [] };
  }
  report('InvalidPolicy', where, 'exactly one of move, default, set and remove is required');
  return undefined;
}

function compileMove(
  step: NonNullable<ConversionStep['move']>,
  where: string,
  target: JsonObject | undefined,
  report: Report,
): StepParts | undefined {
  const from = tryStepPath(step.from, `${where}.from`, report);
  const to = tryStepPath(step.to, `${where}.to`, report);
  if (from === undefined || to === undefined) return undefined;
  const problem = moveProblem(from, to);
  if (problem === undefined)
    return { run: moveStep(from, to, parentsToKeep(from, target)), reads: [from], writes: [to] };
  report('InvalidPath', where, problem);
  return undefined;
}

function moveProblem(from: StepPath, to: StepPath): string | undefined {
  const listOf = ({ list }: StepPath) => JSON.stringify(list);
  if (listOf(from) !== listOf(to))
    return 'from and to lead into different lists; move the list first, then the fields in its elements, or use set with an expression';
  if (from.fields.length === 0 || to.fields.length === 0)
    return 'ends in an element of a list; move a field, or use set with an expression for the list';
  const isWithin = (outer: StepPath, inner: StepPath) =>
    outer.fields.every((field, index) => inner.fields[index] === field);
  return isWithin(from, to) || isWithin(to, from)
    ? 'one path contains the other; use set with an expression, then remove the old field'
    : undefined;
}

/** How many parents to keep when empty: the target version may require the parents that it also has. */
function parentsToKeep({ list, fields }: StepPath, target: JsonObject | undefined): number {
  const parents = fields.slice(0, -1);
  if (list.length === 0 && (target === undefined || fields[0] === 'metadata')) return 1;
  const kept = parents.findIndex((_name, depth) => {
    const names = fields.slice(0, depth + 1).map((name) => ({ kind: 'field', name }) as const);
    return schemaAt(target, [...list, ...names]).kind !== 'known';
  });
  return kept === -1 ? parents.length : kept;
}

function compileDefault(
  step: NonNullable<ConversionStep['default']>,
  where: string,
  report: Report,
): StepParts | undefined {
  const path = tryFieldPath(step.path, `${where}.path`, report);
  const { value, expression } = step;
  if ((value === undefined) === (expression === undefined)) {
    report('InvalidPolicy', where, 'write either value or expression');
    return undefined;
  }
  if (expression === undefined && !isKeptExactly(value)) {
    const message = 'must not contain null or integers beyond 2^53; use an expression instead';
    report('InvalidPolicy', `${where}.value`, message);
    return undefined;
  }
  return compileWrite(path, step, where, 'where absent', report);
}

function compileWrite(
  path: StepPath | undefined,
  { value, expression, when }: Omit<NonNullable<ConversionStep['default']>, 'path'>,
  where: string,
  place: Parameters<typeof writeStep>[2],
  report: Report,
): StepParts | undefined {
  const names = path === undefined || path.list.length > 0 ? ['object', 'item'] : ['object'];
  const compile = (text: string | undefined, field: string, options: CelOptions) =>
    text === undefined ? undefined : tryExpression(text, `${where}.${field}`, names, options, report);
  const condition = compile(when, 'when', { result: 'bool' });
  const program = compile(expression, 'expression', {});
  const isInvalid = (when !== undefined && !condition) || (expression !== undefined && !program);
  if (path === undefined || isInvalid) return undefined;
  // The caller has checked that the value is JSON.
  const step = { value: value as JsonValue | undefined, program, condition };
  return { run: writeStep(path, step, place), reads: [], writes: [path] };
}

function tryStepPath(text: string, where: string, report: Report): StepPath | undefined {
  try {
    return parseStepPath(text);
  } catch (error) {
    if (!(error instanceof InvalidPath)) throw error;
    report('InvalidPath', where, error.message);
    return undefined;
  }
}

/** Parses the path of a step that cannot add or remove list elements. */
function tryFieldPath(text: string, where: string, report: Report): StepPath | undefined {
  const path = tryStepPath(text, where, report);
  if (path === undefined || path.fields.length > 0) return path;
  report(
    'InvalidPath',
    where,
    'ends in an element of a list; end it in a field, or use set with an expression for the list',
  );
  return undefined;
}

function tryExpression(
  expression: string,
  where: string,
  names: readonly string[],
  options: CelOptions,
  report: Report,
): CelProgram | undefined {
  const hint = names.includes('item') ? '' : ' (and item, if the path has [*])';
  return onCelError(
    () => compileCel(expression, names, options),
    ({ message }) => {
      report('InvalidExpression', where, `${message}; an expression can use ${names.join(' and ')}${hint}`);
      return undefined;
    },
  );
}

/** @throws ConversionFailure that names the step */
export function runSteps(steps: readonly CompiledStep[], object: JsonObject, budget: CelBudget): JsonObject {
  let current = object;
  for (const { where, run } of steps) {
    try {
      current = run(current, budget);
    } catch (error) {
      if (!(error instanceof ConversionFailure)) throw error;
      throw new ConversionFailure(`${where}: ${error.message}`, { cause: error });
    }
  }
  return current;
}

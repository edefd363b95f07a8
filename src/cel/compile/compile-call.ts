import { CelError, noSuchOverload } from '../cel-error.ts';
import { compileIndex, isIndex, qualifiedName } from './compile-select.ts';
import { type Compiled, type Compiler, isConstant, type Scope } from './compiler.ts';
import type { Call, Expression } from '../syntax/expression.ts';
import { attempt, charge, count, createCelBudget, isOptional, type Step } from '../values/values.ts';
import { functions } from '../library/all-functions.ts';
import { formatProblem } from '../library/string-format.ts';
import { type Called, callStep, type Resolution, resolveOverloads } from './overloads.ts';
import { compilePattern } from '../regular-expression.ts';
import { type CelType, DYN, dynamicIn, grounded } from '../types/type.ts';
import { parseDuration, parseTimestamp } from '../values/time.ts';
import { MACROS } from '../syntax/macros.ts';
import { declare } from '../library/define.ts';

export function compileCall(call: Call, scope: Scope, compiler: Compiler): Compiled {
  const { name } = call;
  if (isLogical(name)) return compileLogical(call, name, scope, compiler);
  if (isIndex(name)) return compileIndex(call, name, scope, compiler);
  if (name === '_?_:_') return compileConditional(call, scope, compiler);
  return compileFunction(inNamespace(call), scope, compiler);
}

/** `lists.range(3)` parses as a method call on a variable `lists`, but is a call of the function `lists.range`. */
function inNamespace(call: Call): Call {
  const namespace = call.target === undefined ? undefined : qualifiedName(call.target);
  const name = `${namespace ?? ''}.${call.name}`;
  return functions.has(name) ? { ...call, name, target: undefined } : call;
}

function compileFunction(call: Call, scope: Scope, compiler: Compiler): Compiled {
  const { name, target, at } = call;
  const isFormat = name === 'format' && target !== undefined;
  const inner: Scope = isFormat && scope.mixed !== 'always' ? { ...scope, mixed: 'in format' } : scope;
  const receiver = target === undefined ? [] : [compiler.compile(target, inner)];
  const overloads = functions.get(name);
  if (overloads === undefined) {
    const known = [...functions.keys(), ...MACROS];
    const message = `undeclared reference to '${name}' (in container '')`;
    throw compiler.fail(message, at, { kind: 'function', name, known });
  }
  const parts = [...receiver, ...call.arguments.map((part) => compiler.compile(part, inner))];
  const member = target !== undefined;
  const types = parts.map(({ type }) => type);
  const styled = overloads.filter((overload) => overload.member === member);
  const resolved = resolveOverloads({ name, member, types, at }, styled, compiler);
  const resolution = scope.exact ? exactly(name, types, resolved, compiler) : resolved;
  const undecided = undecidedIn(name, resolved, types.map(compiler.solver.resolve));
  if (undecided.length > 0) compiler.distinguishing.add(name);
  if (undecided.some(({ isNumber }) => isNumber) && !WRITES.has(name))
    throw compiler.fail(`${name} gets a number that can be an int or a double: write double(…)`, at);
  const minor = answeredSince(call, resolved, types.map(compiler.solver.resolve));
  if (minor > 0) compiler.need({ name, minor });
  const [problem, argument] = literalProblem(call) ?? [];
  if (problem !== undefined) throw compiler.fail(problem, argument?.at ?? at);
  const wrong = CHECKED.get(name) === isPattern ? problemOf(isPattern, parts[1]?.constant?.value) : undefined;
  if (wrong !== undefined) throw compiler.fail(`invalid ${name} argument${wrong}`, at);
  checkFormat(call, compiler);
  const steps = withPatternCost(
    call,
    parts.map(({ step }) => step),
  );
  const [left, right] = steps;
  if ((name === 'or' || name === 'orValue') && left !== undefined && right !== undefined) {
    return { type: resolution.type, step: alternativeStep(name, left, right) };
  }
  if (isMembership(call) && isEmptyList(call.arguments[1]))
    return { type: resolution.type, step: () => false, constant: { value: false } };
  const step = callStep(name, resolution, steps, isMembership(call));
  const [only, ...others] = parts;
  if (CONVERSIONS.has(name) && only !== undefined && isConstant(only) && others.length === 0)
    return { type: resolution.type, ...folded(step, call, compiler) };
  return { type: resolution.type, step };
}

/** Functions whose result is the same for 3 and 3.0, or which the API server cannot call with one of them. */
const SAME = new Set('_==_ _!=_ _<_ _<=_ _>_ _>=_ @in int uint double timestamp duration'.split(' '));

const WRITES = new Set(['string', 'format', 'type']);

const isNumeric = (type: CelType | undefined): boolean =>
  type?.kind === 'named'
    ? type.name === 'int' || type.name === 'double'
    : type?.kind === 'list' && type.parameters.some(isNumeric);

/** The types of arguments that can be an int or a double, if the result may depend on that. */
function undecidedIn(name: string, { candidates }: Resolution, types: readonly CelType[]) {
  if (SAME.has(name)) return [];
  const takesNumber = (index: number) => candidates.some(({ parameters }) => isNumeric(parameters[index]));
  const takesAny = name === 'type' || name === 'format';
  return types.flatMap((type, index) => (takesAny || takesNumber(index) ? dynamicIn(type) : []));
}

/** The minor version of the first API server that accepts the call and answers as here. */
function answeredSince(
  { name, target, arguments: parts }: Call,
  { candidates }: Resolution,
  [receiver]: readonly CelType[],
): number {
  const since = Math.min(...candidates.map((one) => one.since ?? 0));
  // Before 1.37, the result could be a value that is not an optional, and adding to a quantity changed it.
  const isNoOptional = (name === 'or' || name === 'orValue') && receiver?.kind !== 'optional';
  const isChanged =
    (name === 'add' || name === 'sub') && !(target?.kind === 'call' && NEW_QUANTITY.has(target.name));
  // 1.30 fails for an offset beyond the text or a text that is too short, and writes exponents differently.
  const isSearch =
    (name === 'indexOf' && parts.length === 2) || (name === 'lastIndexOf' && receiver?.kind !== 'list');
  const hasExponent =
    name === 'format' && !(target?.kind === 'literal' && !EXPONENT.test(String(target.value)));
  if (isNoOptional || isChanged || isSearch || hasExponent) return Math.max(since, 37);
  return name === 'indexOf' && receiver?.kind !== 'list' ? Math.max(since, 32) : since;
}

/** Calls that return a new value. Others, such as an index, can return a value that is also stored elsewhere. */
const NEW_QUANTITY = new Set(['quantity', 'add', 'sub']);

const EXPONENT = /%[.\d]*e/;

/** With a dyn argument, the result may be that argument, or contain what is in it. */
function exactly(
  name: string,
  types: readonly CelType[],
  known: Resolution,
  { solver }: Compiler,
): Resolution {
  if (!types.some((type) => solver.resolve(type).kind === 'dyn')) return known;
  const isPassedOn = name === 'or' || name === 'orValue' || (name === '_+_' && known.type.kind === 'list');
  return { ...known, type: isPassedOn ? DYN : grounded(known.type) };
}

/** Whether cel-go looks the value up in a set of literals, which costs nothing. */
const isMembership = ({ name, arguments: [, list] }: Call): boolean =>
  name === '@in' &&
  list?.kind === 'list' &&
  list.items.every(
    ({ value, optional }) =>
      !optional && value.kind === 'literal' && value.value !== null && !(value.value instanceof Uint8Array),
  );

/** Nothing is in an empty list, and cel-go does not even evaluate the value to look up. */
const isEmptyList = (list: Expression | undefined): boolean =>
  list?.kind === 'list' && list.items.length === 0;

/** Checks the literals of `'…'.format([…])`, as the API server does at compile time. */
function checkFormat({ name, target, arguments: [list], at }: Call, compiler: Compiler): void {
  if (name !== 'format' || target?.kind !== 'literal' || typeof target.value !== 'string') return;
  if (list?.kind !== 'list' || list.items.some(({ optional }) => optional)) return;
  const types = list.items.map(({ value }) => compiler.solver.resolve(compiler.typeOf(value)));
  const [problem, index] = formatProblem(target.value, types) ?? [];
  const place = index === undefined ? at : list.items[index]?.value.at;
  if (problem !== undefined) throw compiler.fail(problem, place ?? at);
}

/** The functions that cel-go evaluates when it plans the program, if their argument is a constant. */
const CONVERSIONS = new Set('bool bytes double duration dyn int string timestamp type uint'.split(' '));

/** @throws CelError if the conversion fails: an expression that always fails does not compile */
function folded(step: Step, { at }: Call, { fail }: Compiler): Pick<Compiled, 'step' | 'constant'> {
  try {
    const value = step({ slots: [], budget: createCelBudget() });
    return { step: () => value, constant: { value } };
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    throw fail(error.message, at);
  }
}

/** Evaluates the alternative only if the optional is empty. Like cel-go, `or` may return one that is no optional. */
function alternativeStep(name: 'or' | 'orValue', left: Step, right: Step): Step {
  return (frame) => {
    charge(frame, 1);
    const value = left(frame);
    if (!isOptional(value)) throw noSuchOverload(); // before 1.37, the API server returned the value
    if (value.value === undefined) return right(frame);
    return name === 'or' ? value : value.value;
  };
}

const isPattern = (pattern: string): unknown => compilePattern(pattern);

/** Literal arguments that are checked at compile time: the ones that cel-go checks, and all patterns. */
const CHECKED: ReadonlyMap<string, (text: string) => unknown> = new Map<string, (text: string) => unknown>([
  ['duration', parseDuration],
  ['timestamp', parseTimestamp],
  ['matches', isPattern],
  ['find', isPattern],
  ['findAll', isPattern],
]);

function literalProblem({ name, target, arguments: parts }: Call): readonly [string, Expression] | undefined {
  const check = CHECKED.get(name);
  if (check === undefined) return undefined;
  // cel-go also checks the text in `matches(text, pattern)`.
  for (const argument of check === isPattern && target === undefined ? parts : parts.slice(0, 1)) {
    const why = argument.kind === 'literal' ? problemOf(check, argument.value) : undefined;
    if (why !== undefined) return [`invalid ${name} argument${why}`, argument];
  }
  return undefined;
}

function problemOf(check: (text: string) => unknown, value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  try {
    check(value);
    return undefined;
  } catch (error) {
    return error instanceof CelError || !(error instanceof Error) ? '' : `: ${error.message}`;
  }
}

const STEP_COST = 20;

/** Charges the compilation of a pattern that is no literal, even if it is cached: the cost must always be the same. */
function withPatternCost({ name, target, arguments: parts }: Call, steps: readonly Step[]): readonly Step[] {
  const isLiteral = parts[target === undefined ? 1 : 0]?.kind === 'literal';
  if (CHECKED.get(name) !== isPattern || isLiteral) return steps;
  return steps.map((step, index) => (index === 1 ? charged(step) : step));
}

const charged =
  (step: Step): Step =>
  (frame) => {
    const pattern = step(frame);
    if (typeof pattern === 'string') charge(frame, STEP_COST * stepsOf(pattern));
    return pattern;
  };

function stepsOf(pattern: string): number {
  try {
    return compilePattern(pattern).programSize();
  } catch {
    return pattern.length; // the call itself reports the invalid pattern
  }
}

const CONDITIONAL = declare('_?_:_', 'A', 'bool', 'A', 'A');

const LOGICAL = {
  '_&&_': declare('_&&_', 'bool', 'bool', 'bool'),
  '_||_': declare('_||_', 'bool', 'bool', 'bool'),
} as const;

const isLogical = (name: string): name is keyof typeof LOGICAL => Object.hasOwn(LOGICAL, name);

function compileLogical(call: Call, name: keyof typeof LOGICAL, scope: Scope, compiler: Compiler): Compiled {
  const steps = call.arguments.map((operand) => compiler.compile(operand, scope));
  const { type } = resolveOverloads(calledWith(call, steps), [LOGICAL[name]], compiler);
  const [left, right] = steps.map(({ step }) => step);
  return { type, step: logicalStep(name === '_||_', left ?? never, right ?? never) };
}

const calledWith = ({ name, at }: Call, operands: readonly Compiled[]): Called => ({
  name,
  at,
  member: false,
  types: operands.map(({ type }) => type),
});

const never: Step = () => {
  throw noSuchOverload();
};

/** @param decisive the value that decides the result, even if the other operand fails */
function logicalStep(decisive: boolean, left: Step, right: Step): Step {
  return (frame) => {
    const first = attempt(frame, left);
    if (first === decisive) return decisive;
    const second = typeof first === 'boolean' ? right(frame) : attempt(frame, right);
    if (second === decisive) return decisive;
    if (first instanceof Error) throw first;
    if (typeof first !== 'boolean' || typeof second !== 'boolean')
      throw second instanceof Error ? second : noSuchOverload();
    return !decisive;
  };
}

/** cel-go evaluates a path in a branch as a part of the conditional, which costs 1 less. */
function branchStep({ step, isPath = false }: Compiled, branch: Expression | undefined): Step {
  const isOther =
    (branch?.kind === 'call' && branch.name === '_?_:_') ||
    (branch?.kind === 'select' && branch.mode === 'test');
  if (!isPath || isOther) return step;
  return (frame) => {
    count(frame, -1); // first, so that a budget of exactly the cost is enough
    try {
      return step(frame);
    } catch (error) {
      count(frame, 1); // a path that fails costs the same everywhere
      throw error;
    }
  };
}

function compileConditional(call: Call, scope: Scope, compiler: Compiler): Compiled {
  const parts = call.arguments.map((part) => compiler.compile(part, scope));
  const { type } = resolveOverloads(calledWith(call, parts), [CONDITIONAL], compiler);
  const [condition = never, yes = never, no = never] = parts.map((part, index) =>
    index === 0 ? part.step : branchStep(part, call.arguments[index]),
  );
  return {
    type,
    isPath: true,
    step: (frame) => {
      const value = condition(frame);
      if (typeof value !== 'boolean') throw noSuchOverload();
      return value ? yes(frame) : no(frame);
    },
  };
}

import { CelError, noSuchOverload } from '../cel-error.ts';
import { type Compiled, type Compiler, type Scope, type Variable, withVariables } from './compiler.ts';
import type { Comprehension, OptionalMap } from '../syntax/expression.ts';
import { type Fold, withFold } from './comprehensions.ts';
import { charge, count, type Frame, type Step } from '../frame.ts';
import { mapGet, mapKeys } from '../values/maps.ts';
import {
  BOOL,
  type CelType,
  DYN,
  INT,
  listOf,
  mapOf,
  optionalOf,
  parameter,
  showType,
  STRING,
} from '../types/type.ts';
import { isList, isMap, isOptional, NONE, optional, typeNameOf } from '../values/values.ts';

export function compileComprehension(loop: Comprehension, scope: Scope, compiler: Compiler): Compiled {
  const range = compiler.compile(loop.range, scope);
  const { key, item } = rangeTypes(range.type, loop, compiler);
  const two = loop.variables.length === 2;
  if (two) compiler.need({ name: 'macros with two variables', minor: 33 });
  if (loop.macro === 'sortBy') compiler.need({ name: 'sortBy', minor: 35 });
  const variables = (two ? [key, item] : [isOverMap(range.type, compiler) ? key : item]).map(
    compiler.declare,
  );
  const inner = withVariables(
    scope,
    loop.variables.map((name, index): [string, Variable] => [
      name,
      variables[index] ?? compiler.declare(DYN),
    ]),
  );
  const filter = loop.filter === undefined ? undefined : compiler.compile(loop.filter, inner);
  const body = compiler.compile(loop.body, inner);
  const predicates = [
    ...(filter === undefined ? [] : [filter]),
    ...(IS_PREDICATE.has(loop.macro) ? [body] : []),
  ];
  for (const { type } of predicates) checkPredicate(type, loop, compiler);
  const [first = 0, second] = variables.map(({ slot }) => slot);
  const bind = binder(first, two ? second : undefined);
  const parts = { first: (frame: Frame) => frame.slots[first], filter: filter?.step, body: body.step };
  return {
    type: resultType(
      loop,
      { key, item: two ? item : (variables[0]?.type ?? DYN), body: body.type },
      compiler,
    ),
    step: withFold(loop.macro, parts, (fold) => loopStep(range.step, bind, fold)),
  };
}

const isOverMap = (type: CelType, { solver }: Compiler) =>
  ['map', 'object'].includes(solver.resolve(type).kind);

/** For a list, the types of its indexes and elements. For a map, the types of its keys and values. */
function rangeTypes(
  given: CelType,
  { range }: Comprehension,
  compiler: Compiler,
): { readonly key: CelType; readonly item: CelType } {
  const type = compiler.solver.resolve(given);
  switch (type.kind) {
    case 'list':
      return { key: INT, item: parameter(type) };
    case 'map':
      return { key: parameter(type), item: parameter(type, 1) };
    case 'object':
      return { key: STRING, item: DYN };
    case 'dyn':
    case 'variable':
      return { key: DYN, item: DYN };
    case 'named':
    case 'optional':
    case 'type':
      throw compiler.fail(
        `expression of type '${showType(type)}' cannot be range of a comprehension (must be list, map, or dynamic)`,
        range.at,
      );
  }
}

const IS_PREDICATE = new Set<Comprehension['macro']>(['all', 'exists', 'existsOne', 'filter']);
const LOGIC = { all: '_&&_', exists: '_||_' } as const;

function checkPredicate(type: CelType, { macro, at }: Comprehension, { solver, fail }: Compiler): void {
  if (solver.assign([BOOL], [type])) return;
  const found = showType(solver.resolve(type));
  const logic = macro === 'all' || macro === 'exists' ? LOGIC[macro] : undefined;
  throw fail(
    logic === undefined
      ? `found no matching overload for '_?_:_' applied to '(${found}, dyn, dyn)'`
      : `found no matching overload for '${logic}' applied to '(bool, ${found})'`,
    at,
  );
}

interface ComprehensionTypes {
  readonly key: CelType;
  readonly item: CelType;
  readonly body: CelType;
}

function resultType(
  { macro, at }: Comprehension,
  { key, item, body }: ComprehensionTypes,
  { solver, fail }: Compiler,
): CelType {
  switch (macro) {
    case 'all':
    case 'exists':
    case 'existsOne':
      return BOOL;
    case 'map':
      return listOf(body);
    case 'filter':
      return listOf(item);
    case 'sortBy':
      if (solver.resolve(body).kind === 'variable') solver.assign([INT], [body]);
      return sortedType({ key, item }, solver.resolve(body), at, fail);
    case 'transformMap':
      return mapOf(key, body);
    case 'transformMapEntry': {
      const entries = mapOf(solver.fresh(), solver.fresh());
      if (solver.assign([entries], [body])) return entries;
      throw fail(
        `found no matching overload for 'cel.@mapInsert' applied to '(map(dyn, dyn), ${showType(solver.resolve(body))})'`,
        at,
      );
    }
  }
}

/** The types whose values have an order. */
const SORTABLE = new Set(['bool', 'bytes', 'double', 'duration', 'int', 'string', 'timestamp', 'uint']);

function sortedType(
  { key, item }: Pick<ComprehensionTypes, 'key' | 'item'>,
  body: CelType,
  at: number,
  fail: Compiler['fail'],
): CelType {
  const hasOrder =
    body.kind === 'dyn' || body.kind === 'variable' || (body.kind === 'named' && SORTABLE.has(body.name));
  if (hasOrder) return key.kind === 'dyn' ? DYN : listOf(item); // the elements of a dyn are not known to be a list
  const types = `${showType(listOf(item))}.(${showType(listOf(body))})`;
  throw fail(`found no matching overload for '@sortByAssociatedKeys' applied to '${types}'`, at);
}

type Bind = (frame: Frame, range: unknown, item: unknown, index: number) => void;

/** Sets the variables of one iteration. Two variables are index and element of a list, or key and value of a map. */
function binder(first: number, second: number | undefined): Bind {
  if (second === undefined) {
    return (frame, _range, item) => {
      frame.slots[first] = item;
    };
  }
  return (frame, range, item, index) => {
    frame.slots[first] = isMap(range) ? item : BigInt(index);
    frame.slots[second] = isMap(range) ? mapGet(range, item) : item;
  };
}

function loopStep<State>(range: Step, bind: Bind, { start, visit, finish, stopCost = 0 }: Fold<State>): Step {
  return (frame) => {
    const over = range(frame);
    const items = itemsOf(frame, over);
    const state = start();
    for (let index = 0; index < items.length; index += 1) {
      bind(frame, over, items[index], index);
      if (!visit(frame, state, items[index])) continue;
      if (index < items.length - 1) count(frame, stopCost);
      break;
    }
    count(frame, 1);
    return finish(frame, state);
  };
}

function itemsOf(frame: Frame, range: unknown): readonly unknown[] {
  if (isList(range)) return range;
  if (!isMap(range)) throw new CelError(`got '${typeNameOf(range)}', expected iterable type`);
  const keys = mapKeys(range);
  charge(frame, keys.length); // all keys are listed, even if the first one decides
  return keys;
}

/**
 * `optMap(v, …)` wraps the result of its body in an optional. The body of `optFlatMap(v, …)` returns an optional
 * itself.
 */
export function compileOptionalMap(
  { operand, variable, body, flat, at }: OptionalMap,
  scope: Scope,
  { solver, fail, declare, need, compile }: Compiler,
): Compiled {
  const from = compile(operand, scope);
  const item = solver.fresh();
  const name = flat ? 'optFlatMap' : 'optMap';
  if (!solver.assign([optionalOf(item)], [from.type])) {
    const found = showType(solver.resolve(from.type));
    throw fail(`found no matching overload for '${name}' applied to '${found}.(dyn, dyn)'`, at);
  }
  // 1.30 refuses an optional without a type, such as optional.none().
  if (solver.resolve(item).kind === 'variable') need({ name, minor: 37 });
  const declared = declare(solver.resolve(item));
  const to = compile(body, withVariables(scope, [[variable, declared]]));
  const type = flat ? to.type : optionalOf(to.type);
  if (isOpaqueIn(solver.resolve(type))) need({ name, minor: 37 });
  return {
    type,
    step: (frame) => {
      const { remaining } = frame.budget;
      const value = from.step(frame);
      count(frame, 1); // hasValue()
      if (!isOptional(value)) throw noSuchOverload(name);
      count(frame, 1); // none() or value()
      if (value.value === undefined) return NONE;
      count(frame, remaining - frame.budget.remaining - (flat ? 2 : 1)); // the macro evaluates its receiver twice
      frame.slots[declared.slot] = value.value;
      const made = to.step(frame);
      return flat ? made : optional(made);
    },
  };
}

/** Whether the optional has a value without a form in JSON, such as a `kubernetes.Quantity`: 1.30 loses it in these macros. */
function isOpaqueIn(type: CelType): boolean {
  const content = parameter(type);
  return (
    content.kind === 'optional' ||
    content.kind === 'type' ||
    (content.kind === 'named' && content.name.includes('.'))
  );
}

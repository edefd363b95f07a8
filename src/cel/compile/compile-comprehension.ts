import { CelError, noSuchOverload } from '../cel-error.ts';
import { type Compiled, type Compiler, type Scope, type Variable, withVariables } from './compiler.ts';
import type { Comprehension, OptionalMap } from '../syntax/expression.ts';
import {
  attempt,
  charge,
  count,
  type Frame,
  isList,
  isMap,
  isOptional,
  keyOf,
  mapGet,
  mapKeys,
  NONE,
  optional,
  spend,
  type Step,
  typeNameOf,
} from '../values/values.ts';
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
import { sortByKeys } from '../library/lists.ts';

export function compileComprehension(loop: Comprehension, scope: Scope, compiler: Compiler): Compiled {
  const range = compiler.compile(loop.range, scope);
  const { key, item } = rangeTypes(range.type, loop, compiler);
  const two = loop.variables.length === 2;
  if (two) compiler.need({ name: 'macros with two variables', minor: 33 });
  if (loop.macro === 'sortBy') compiler.need({ name: 'sortBy', minor: 35 });
  const isOverMap = ['map', 'object'].includes(compiler.solver.resolve(range.type).kind);
  const types = two ? [key, item] : [isOverMap ? key : item];
  const variables = loop.variables.map((name, index): [string, Variable] => [
    name,
    compiler.declare(types[index] ?? DYN),
  ]);
  const inner = withVariables(scope, variables);
  const filter = loop.filter === undefined ? undefined : compiler.compile(loop.filter, inner);
  const body = compiler.compile(loop.body, inner);
  const predicates = [
    ...(filter === undefined ? [] : [filter]),
    ...(IS_PREDICATE.has(loop.macro) ? [body] : []),
  ];
  for (const { type } of predicates) checkPredicate(type, loop, compiler);
  const [first = 0, second] = variables.map(([, { slot }]) => slot);
  const loopOver = <State>(fold: Fold<State>): Step =>
    loopStep(range.step, first, two ? second : undefined, fold);
  return {
    type: resultType(loop, { key, item: two ? item : (types[0] ?? DYN), body: body.type }, compiler),
    step: foldStep(loop.macro, first, filter?.step, body.step, loopOver),
  };
}

function foldStep(
  macro: Comprehension['macro'],
  first: number,
  filter: Step | undefined,
  body: Step,
  loopOver: <State>(fold: Fold<State>) => Step,
): Step {
  switch (macro) {
    case 'all':
      return loopOver(quantifier(false, 3, body));
    case 'exists':
      return loopOver(quantifier(true, 4, body));
    case 'existsOne':
      return loopOver(existsOne(body));
    case 'map':
      return loopOver(collect(filter, body, APPEND_COST));
    case 'filter':
      return loopOver(collect(body, (_frame, item) => item, APPEND_COST + 1));
    case 'transformMap':
      return loopOver(insert(filter, (frame) => [[keyOf(frame.slots[first]), body(frame)]], 3));
    case 'transformMapEntry':
      return loopOver(insert(filter, (frame) => entriesOf(body(frame)), 2));
    case 'sortBy':
      return loopOver(sorted(body));
  }
}

function rangeTypes(
  given: CelType,
  { range }: Comprehension,
  compiler: Compiler,
): Readonly<Record<'key' | 'item', CelType>> {
  const type = compiler.solver.resolve(given);
  if (type.kind === 'list') return { key: INT, item: parameter(type) };
  if (type.kind === 'map') return { key: parameter(type), item: parameter(type, 1) };
  if (type.kind === 'object') return { key: STRING, item: DYN };
  if (type.kind === 'dyn' || type.kind === 'variable') return { key: DYN, item: DYN };
  throw compiler.fail(
    `expression of type '${showType(type)}' cannot be range of a comprehension (must be list, map, or dynamic)`,
    range.at,
  );
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

function resultType(
  { macro, at }: Comprehension,
  { key, item, body }: Readonly<Record<'key' | 'item' | 'body', CelType>>,
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

const SORTABLE = new Set(['bool', 'bytes', 'double', 'duration', 'int', 'string', 'timestamp', 'uint']);

function sortedType(
  { key, item }: Readonly<Record<'key' | 'item', CelType>>,
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

function loopStep<State>(
  range: Step,
  first: number,
  second: number | undefined,
  { start, visit, finish, stopCost = 0 }: Fold<State>,
): Step {
  return (frame) => {
    const over = range(frame);
    const items = itemsOf(frame, over);
    const state = start();
    for (let index = 0; index < items.length; index += 1) {
      const item = items[index];
      frame.slots[first] = second === undefined || isMap(over) ? item : BigInt(index);
      if (second !== undefined) frame.slots[second] = isMap(over) ? mapGet(over, item) : item;
      if (!visit(frame, state, item)) continue;
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

/** Without a form in JSON, such as a `kubernetes.Quantity`: 1.30 loses the value in these macros. */
function isOpaqueIn(type: CelType): boolean {
  const content = parameter(type);
  return (
    content.kind === 'optional' ||
    content.kind === 'type' ||
    (content.kind === 'named' && content.name.includes('.'))
  );
}

/** The loop of a macro over a list or a map. The costs are cel-go's for the comprehension that replaces the macro. */
interface Fold<State> {
  readonly start: () => State;
  readonly visit: (frame: Frame, state: State, item: unknown) => boolean;
  readonly finish: (frame: Frame, state: State) => unknown;
  readonly stopCost?: number;
}

interface Verdict {
  decided: boolean;
  failure: CelError | undefined;
}

/** `all` searches for false, `exists` for true. If the value is found, errors of earlier items do not count. */
function quantifier(wanted: boolean, cost: number, body: Step): Fold<Verdict> {
  return {
    start: () => ({ decided: false, failure: undefined }),
    stopCost: cost - 1,
    visit: (frame, state) => {
      spend(frame, cost);
      const value = attempt(frame, body);
      if (value === wanted) state.decided = true;
      else if (value instanceof CelError) state.failure ??= value;
      else if (typeof value !== 'boolean') state.failure ??= noSuchOverload();
      return state.decided;
    },
    finish: (_frame, { decided, failure }) => {
      if (!decided && failure !== undefined) throw failure;
      return decided ? wanted : !wanted;
    },
  };
}

function test(frame: Frame, predicate: Step | undefined): boolean {
  if (predicate === undefined) return true;
  const value = predicate(frame);
  if (typeof value !== 'boolean') throw noSuchOverload();
  return value;
}

const existsOne = (body: Step): Fold<{ found: number }> => ({
  start: () => ({ found: 0 }),
  visit: (frame, state) => {
    spend(frame, 1);
    if (!test(frame, body)) return false;
    count(frame, 1);
    state.found += 1;
    return false;
  },
  finish: (frame, { found }) => {
    count(frame, 1);
    return found === 1;
  },
});

const APPEND_COST = 12;

const collect = (
  filter: Step | undefined,
  make: (frame: Frame, item: unknown) => unknown,
  cost: number,
): Fold<unknown[]> => ({
  start: () => [],
  visit: (frame, list, item) => {
    spend(frame, 1);
    if (!test(frame, filter)) return false;
    charge(frame, APPEND_COST - 1);
    count(frame, cost - 1);
    list.push(make(frame, item));
    return false;
  },
  finish: (_frame, list) => list,
});

const INSERT_COST = 3;

const insert = (
  filter: Step | undefined,
  entries: (frame: Frame) => readonly (readonly [unknown, unknown])[],
  cost: number,
): Fold<Map<unknown, unknown>> => ({
  start: () => new Map(),
  visit: (frame, map) => {
    spend(frame, 1);
    if (!test(frame, filter)) return false;
    count(frame, cost - 1);
    for (const [key, value] of entries(frame)) {
      charge(frame, INSERT_COST);
      if (map.has(key)) throw new CelError(`insert failed: key ${String(key)} already exists`);
      map.set(key, value);
    }
    return false;
  },
  finish: (_frame, map) => map,
});

function entriesOf(value: unknown): readonly (readonly [unknown, unknown])[] {
  if (!isMap(value)) throw noSuchOverload();
  return mapKeys(value).map((key) => [key, mapGet(value, key)]);
}

const SORT_COST = 13;

const sorted = (body: Step): Fold<{ readonly items: unknown[]; readonly keys: unknown[] }> => ({
  start: () => ({ items: [], keys: [] }),
  visit: (frame, { items, keys }, item) => {
    spend(frame, APPEND_COST);
    items.push(item);
    keys.push(body(frame));
    return false;
  },
  finish: (frame, { items, keys }) => {
    count(frame, SORT_COST + 2 * items.length ** 2);
    return sortByKeys(frame, items, keys);
  },
});

import { attempt, charge, count, type Frame, spend, type Step } from '../frame.ts';
import { CelError, noSuchOverload } from '../cel-error.ts';
import { keyOf } from './compile-aggregate.ts';
import type { Comprehension } from '../syntax/expression.ts';
import { sortByKeys } from '../library/lists.ts';
import { mapGet, mapKeys } from '../values/maps.ts';
import { isMap } from '../values/values.ts';

/** The loop of a macro over a list or a map. Costs are those of the comprehensions into which cel-go expands macros. */
export interface Fold<State> {
  readonly start: () => State;
  /** @returns whether the loop can stop early */
  readonly visit: (frame: Frame, state: State, item: unknown) => boolean;
  readonly finish: (frame: Frame, state: State) => unknown;
  /** The cost of stopping before the last item; default 0. */
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

/** Collects the results for all items that pass the filter. */
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

interface Keyed {
  readonly items: unknown[];
  readonly keys: unknown[];
}

/** Of a list that is empty. */
const SORT_COST = 13;

const sorted = (body: Step): Fold<Keyed> => ({
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

/** The parts of a macro. */
export interface FoldParts {
  /** The value of the macro's first variable. */
  readonly first: Step;
  readonly filter: Step | undefined;
  readonly body: Step;
}

/** Calls `use` with the fold of the macro. The callback keeps the type of its state. */
export function withFold<Result>(
  macro: Comprehension['macro'],
  { first, filter, body }: FoldParts,
  use: <State>(fold: Fold<State>) => Result,
): Result {
  switch (macro) {
    case 'all':
      return use(quantifier(false, 3, body));
    case 'exists':
      return use(quantifier(true, 4, body));
    case 'existsOne':
      return use(existsOne(body));
    case 'map':
      return use(collect(filter, body, APPEND_COST));
    case 'filter':
      return use(collect(body, (_frame, item) => item, APPEND_COST + 1));
    case 'transformMap':
      return use(insert(filter, (frame) => [[keyOf(first(frame)), body(frame)]], 3));
    case 'transformMapEntry':
      return use(insert(filter, (frame) => entriesOf(body(frame)), 2));
    case 'sortBy':
      return use(sorted(body));
  }
}

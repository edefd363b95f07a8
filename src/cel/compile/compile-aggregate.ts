import { CelError } from '../cel-error.ts';
import { type Compiled, type Compiler, isConstant, type Scope } from './compiler.ts';
import type { Entry, Expression, Item } from '../syntax/expression.ts';
import { charge, count, type Frame } from '../frame.ts';
import { mapKey } from '../values/maps.ts';
import { isSameType } from '../types/solver.ts';
import { type CelType, DYN, listOf, mapOf, optionalOf, showType } from '../types/type.ts';
import { isOptional, typeNameOf } from '../values/values.ts';

const LIST_COST = 10;
const MAP_COST = 30;

export function compileList(items: readonly Item[], scope: Scope, compiler: Compiler): Compiled {
  const values = items.map((item) => compileItem(item, scope, compiler));
  const type = listOf(joined(values, scope, compiler));
  const steps = values.map(({ step }) => step);
  const isFolded = values.every(isConstant) && !items.some(({ optional }) => optional);
  const cost = isFolded ? 0 : LIST_COST;
  if (!items.some(({ optional }) => optional)) {
    return {
      ...{ type, isFolded },
      step: (frame) => {
        charge(frame, LIST_COST);
        count(frame, cost);
        return steps.map((step) => step(frame));
      },
    };
  }
  return {
    type,
    step: (frame) => {
      charge(frame, LIST_COST);
      count(frame, cost);
      return steps.flatMap((step, index) => itemValue(step(frame), items[index]?.optional === true));
    },
  };
}

interface CompiledItem extends Compiled {
  readonly at: number;
}

function compileItem({ value, optional }: Item, scope: Scope, compiler: Compiler): CompiledItem {
  const compiled = compiler.compile(value, scope);
  const { type, step } = compiled;
  const { at } = value;
  if (!optional) return { ...compiled, at };
  const inner = compiler.solver.fresh();
  if (!compiler.solver.assign([optionalOf(inner)], [type])) {
    throw compiler.fail(`expected type 'optional_type(dyn)' but found '${show(type, compiler)}'`, at);
  }
  return { type: inner, step, at };
}

const show = (type: CelType, { solver }: Compiler) => showType(solver.resolve(type));

/** The common type of all items. @throws CelError if they differ and must not */
function joined(items: readonly CompiledItem[], { mixed }: Scope, compiler: Compiler): CelType {
  const [first, ...rest] = items;
  if (first === undefined) return compiler.solver.fresh();
  return rest.reduce((type, item) => {
    const fits = compiler.solver.assign([type], [item.type]);
    const [expected, found] = [compiler.solver.resolve(first.type), compiler.solver.resolve(item.type)];
    if (!isSameType(expected, found)) {
      if (mixed === 'never')
        throw compiler.fail(`expected type '${showType(expected)}' but found '${showType(found)}'`, item.at);
      // 1.30 allows it only where nothing but literals is between the list and the format.
      if (mixed === 'deep in format') compiler.need({ name: 'a list of mixed types', minor: 31 });
    }
    return fits ? type : DYN;
  }, first.type);
}

/** The value in a list; an empty list for an empty optional. */
function itemValue(value: unknown, optional: boolean): readonly unknown[] {
  if (!optional) return [value];
  if (!isOptional(value))
    throw new CelError('cannot initialize optional list element from non-optional value');
  return value.value === undefined ? [] : [value.value];
}

export function compileMap(entries: readonly Entry[], scope: Scope, compiler: Compiler): Compiled {
  const keys = entries.map(({ key }) => compileKey(key, scope, compiler));
  const values = entries.map((entry) => compileItem(entry, scope, compiler));
  const type = mapOf(joined(keys, scope, compiler), joined(values, scope, compiler));
  const isFolded = [...keys, ...values].every(isConstant) && !entries.some(({ optional }) => optional);
  const cost = isFolded ? 0 : MAP_COST;
  return {
    ...{ type, isFolded },
    step: (frame) => {
      charge(frame, MAP_COST);
      const map = new Map(
        entries.flatMap(({ optional }, index) => entryOf(frame, keys[index], values[index], optional)),
      );
      count(frame, cost);
      return map;
    },
  };
}

const compileKey = (key: Expression, scope: Scope, compiler: Compiler): CompiledItem => ({
  ...compiler.compile(key, scope),
  at: key.at,
});

function entryOf(
  frame: Frame,
  key: Compiled | undefined,
  value: Compiled | undefined,
  optional: boolean,
): readonly (readonly [unknown, unknown])[] {
  const written = key?.step(frame);
  return itemValue(value?.step(frame), optional).map((item) => [keyOf(written), item]);
}

/** Other values than texts, numbers and bools are keys as well, although nothing finds them. */
export function keyOf(key: unknown): unknown {
  if (key instanceof Uint8Array) throw new CelError(`unsupported key type: ${typeNameOf(key)}`);
  return mapKey(key) ?? key;
}

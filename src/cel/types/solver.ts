import { type CelType, DYN, type ObjectType, parameter } from './type.ts';

export type Solver = ReturnType<typeof createSolver>;

interface Bindings {
  readonly get: (variable: string) => CelType | undefined;
  readonly set: (variable: string, type: CelType) => void;
}

export function createSolver() {
  const bound = new Map<string, CelType>();
  const before = new Map<string, CelType | undefined>();
  const bindings: Bindings = {
    get: (variable) => bound.get(variable),
    set: (variable, type) => {
      if (!before.has(variable)) before.set(variable, bound.get(variable));
      bound.set(variable, type);
    },
  };
  let variables = 0;
  const fresh = (): CelType => ({ kind: 'variable', name: `_${(variables += 1)}` });
  return {
    fresh,
    /** Replaces the declared type variables (`A`, `K`, …) by fresh ones, the same one for the same name. */
    instantiate: (types: readonly CelType[]): readonly CelType[] => {
      const own = new Map<string, CelType>();
      return types.map((type) =>
        replaceVariables(type, (name) => {
          const known = own.get(name) ?? fresh();
          own.set(name, known);
          return known;
        }),
      );
    },
    /** Whether the given types are assignable to the wanted ones. If so, binds variables accordingly. */
    assign: (wanted: readonly CelType[], given: readonly CelType[]): boolean => {
      before.clear();
      const fits =
        wanted.length === given.length &&
        wanted.every((type, index) => isAssignable(bindings, given[index] ?? DYN, type));
      if (fits) return true;
      for (const [variable, type] of before) {
        if (type === undefined) bound.delete(variable);
        else bound.set(variable, type);
      }
      return false;
    },
    resolve: (type: CelType): CelType => resolve(bindings, type),
  };
}

function resolve(bindings: Bindings, type: CelType): CelType {
  return replaceVariables(type, (name) => {
    const bound = bindings.get(name);
    return bound === undefined ? { kind: 'variable', name } : resolve(bindings, bound);
  });
}

function replaceVariables(type: CelType, replacement: (name: string) => CelType): CelType {
  if (type.kind === 'variable') return replacement(type.name);
  if (!('parameters' in type)) return type;
  return {
    kind: type.kind,
    parameters: type.parameters.map((inner) => replaceVariables(inner, replacement)),
  };
}

/** Follows the CEL type checker: a variable takes the most general type assigned to it. */
function isAssignable(bindings: Bindings, given: CelType, wanted: CelType): boolean {
  if (wanted.kind === 'variable') {
    const outcome = bind(bindings, wanted.name, given);
    if (outcome !== 'unbound') return outcome === 'fits';
  }
  if (given.kind === 'variable') return bind(bindings, given.name, wanted) === 'fits';
  if (given.kind === 'dyn' || wanted.kind === 'dyn') return true;
  if (isNull(given) || isNull(wanted)) return acceptsNull(given) && acceptsNull(wanted);
  if (given.kind === 'named') return wanted.kind === 'named' && given.name === wanted.name;
  if (given.kind === 'object') return isAssignableObject(bindings, given, wanted);
  if (wanted.kind === 'object') return isAssignableObject(bindings, wanted, given);
  if (!('parameters' in wanted) || given.kind !== wanted.kind) return false;
  if (given.kind === 'type') return true; // all type values are comparable
  return given.parameters.every((type, i) => isAssignable(bindings, type, parameter(wanted, i)));
}

/** An object with a schema is assignable to a map from string to any type. */
function isAssignableObject(bindings: Bindings, { name, sealed }: ObjectType, other: CelType): boolean {
  if (other.kind === 'object') return name === other.name;
  return (
    other.kind === 'map' &&
    sealed !== true &&
    isAssignable(bindings, { kind: 'named', name: 'string' }, parameter(other)) &&
    isAssignable(bindings, DYN, parameter(other, 1))
  );
}

const isNull = (type: CelType) => type.kind === 'named' && type.name === 'null';

const NEVER_NULL = new Set(['bool', 'int', 'uint', 'double', 'string', 'bytes']);

/** Objects may be null (`oldObject` on create), and so may values of the libraries. */
const acceptsNull = (type: CelType) =>
  type.kind === 'object' || type.kind === 'optional' || (type.kind === 'named' && !NEVER_NULL.has(type.name));

type Outcome = 'fits' | 'misfits' | 'unbound';

/** `unbound`: the variable is free, but cannot take the type. */
function bind(bindings: Bindings, name: string, type: CelType): Outcome {
  if (type.kind === 'variable' && type.name === name) return 'fits';
  const bound = bindings.get(name);
  if (bound === undefined) {
    if (mentions(bindings, type, name)) return 'unbound';
    bindings.set(name, type);
    return 'fits';
  }
  if (!isAssignable(bindings, type, bound)) return 'misfits';
  const general = isAtLeastAsGeneral(type, bound) ? type : bound;
  if (!mentions(bindings, general, name)) bindings.set(name, general);
  return 'fits';
}

function mentions(bindings: Bindings, type: CelType, name: string): boolean {
  if (type.kind === 'variable') {
    const bound = bindings.get(type.name);
    return type.name === name || (bound !== undefined && mentions(bindings, bound, name));
  }
  return 'parameters' in type && type.parameters.some((inner) => mentions(bindings, inner, name));
}

function isAtLeastAsGeneral(type: CelType, than: CelType): boolean {
  if (type.kind === 'dyn' || type.kind === 'variable') return true;
  if (than.kind === 'dyn' || than.kind === 'variable') return false;
  if (type.kind !== than.kind) return false;
  if (type.kind === 'named') return than.kind === 'named' && type.name === than.name;
  if (!('parameters' in type)) return true;
  return type.parameters.every((inner, i) => isAtLeastAsGeneral(inner, parameter(than, i)));
}

/** Whether the types are equal. A free variable equals only itself. */
export function isSameType(left: CelType, right: CelType): boolean {
  if (left.kind !== right.kind) return false;
  if ('parameters' in left)
    return left.parameters.every((inner, i) => isSameType(inner, parameter(right, i)));
  return 'name' in left && 'name' in right ? left.name === right.name : true;
}

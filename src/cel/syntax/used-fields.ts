import { type Expression, withoutDyn } from './expression.ts';

/** The fields of a variable that an expression reads by name; `all` if it also uses the variable in another way. */
export type UsedFields = ReadonlySet<string> | 'all';

/** The variables that the expression reads, without those that its macros declare. */
export function usedFields(expression: Expression): ReadonlyMap<string, UsedFields> {
  const used = new Map<string, Set<string> | 'all'>();
  const add = (name: string, field: string | undefined): void => {
    const known = used.get(name) ?? new Set();
    if (field === undefined || known === 'all') used.set(name, 'all');
    else used.set(name, known.add(field));
  };
  visit(expression, new Set(), add);
  return used;
}

export function readsField(
  { reads }: { readonly reads: ReadonlyMap<string, UsedFields> },
  variable: string,
  field: string,
): boolean {
  const fields = reads.get(variable);
  return fields === 'all' || fields?.has(field) === true;
}

type Add = (name: string, field: string | undefined) => void;

/** @param declared the variables of the macros around the expression */
function visit(expression: Expression, declared: ReadonlySet<string>, add: Add): void {
  const [operand, step] = stepOf(expression);
  if (operand?.kind === 'identifier') {
    if (!declared.has(operand.name)) add(operand.name, step?.name);
    return;
  }
  const [outer, inner, names] = partsOf(expression);
  for (const part of outer) visit(part, declared, add);
  const visible = names.length === 0 ? declared : new Set([...declared, ...names]);
  for (const part of inner) visit(part, visible, add);
}

/** The parts outside and inside the scope of the expression's macro, and the variables that the macro declares. */
function partsOf(
  expression: Expression,
): readonly [outer: readonly Expression[], inner: readonly Expression[], declared: readonly string[]] {
  switch (expression.kind) {
    case 'literal':
    case 'identifier':
      return [[], [], []];
    case 'select':
      return [[expression.operand], [], []];
    case 'call':
      return [[...present(expression.target), ...expression.arguments], [], []];
    case 'list':
      return [expression.items.map(({ value }) => value), [], []];
    case 'map':
      return [expression.entries.flatMap(({ key, value }) => [key, value]), [], []];
    case 'message':
      return [expression.fields.map(({ value }) => value), [], []];
    case 'comprehension':
      return [[expression.range], [...present(expression.filter), expression.body], expression.variables];
    case 'optionalMap':
      return [[expression.operand], [expression.body], [expression.variable]];
  }
}

const present = (expression: Expression | undefined) => (expression === undefined ? [] : [expression]);

export interface ReadStep {
  readonly name: string;
  /** Whether the expression fails if there is no such field. */
  readonly strict: boolean;
  /** Whether the expression only tests that the field exists: `has(x.field)`. */
  readonly test: boolean;
}

/** The parts of a variable that an expression reads. An empty path means the whole variable. */
export function readPaths(expression: Expression, variable: string): readonly (readonly ReadStep[])[] {
  const path = pathFrom(expression, variable);
  if (path !== undefined) return [path];
  const [outer, inner] = partsOf(expression);
  return [...outer, ...inner].flatMap((part) => readPaths(part, variable));
}

export function pathFrom(written: Expression, variable: string): readonly ReadStep[] | undefined {
  const expression = withoutDyn(written);
  if (expression.kind === 'identifier') return expression.name === variable ? [] : undefined;
  const [operand, step] = stepOf(expression);
  if (operand === undefined || step === undefined) return undefined;
  const before = pathFrom(operand, variable);
  if (before === undefined) return undefined;
  // A field of an optional is optional.
  const isOptional = before.some(({ strict }) => !strict);
  return [...before, { ...step, strict: step.strict && !isOptional }];
}

/** The step of `x.field`, `x.?field`, `has(x.field)`, `x['field']` or `x[?'field']`. A variable alone has none. */
function stepOf(expression: Expression): readonly [operand?: Expression, step?: ReadStep] {
  if (expression.kind === 'identifier') return [expression];
  if (expression.kind === 'select')
    return [
      expression.operand,
      { name: expression.field, strict: expression.mode === 'read', test: expression.mode === 'test' },
    ];
  if (expression.kind !== 'call' || (expression.name !== '_[_]' && expression.name !== '_[?_]')) return [];
  const [operand, key] = expression.arguments;
  if (operand === undefined || key?.kind !== 'literal' || typeof key.value !== 'string') return [];
  return [operand, { name: key.value, strict: expression.name === '_[_]', test: false }];
}

/**
 * Whether all changes of a policy, applied to their own result, change nothing. The webhook applies them twice to check this. The
 * API server applies them twice without a check, so it may only make changes that are repeatable for every object.
 */
import type { CompiledMutation, CompiledPolicy } from '../../policy/compiled-policy.ts';
import type { Operation, Patches } from './patches.ts';
import {
  fieldsPath,
  isInside,
  overlap,
  overlapAny,
  pathsWritten,
  valuesRead,
  pointerPath,
  type Path,
} from './paths.ts';
import type { CelProgram } from '../../../cel/cel.ts';
import type { Expression } from '../../../cel/syntax/expression.ts';
import { parseExpression } from '../../../cel/syntax/parse.ts';
import { pathFrom } from '../../../cel/syntax/used-fields.ts';
import type { Written } from './written-value.ts';

interface Change {
  readonly name: string;
  readonly writes: readonly Path[];
  /** What the change depends on, except its guard. */
  readonly reads: readonly Path[];
  readonly guard: Guard | undefined;
}

/** Defaults alone are repeatable: they change only what is absent. @param patches of the mutations, in their order */
export function repeatProblem(policy: CompiledPolicy, patches: readonly Patches[]): string | undefined {
  const { defaults, mutations } = policy;
  if (mutations.length === 0) return undefined;
  for (const [index, mutation] of mutations.entries()) {
    const problem = selfProblem(policy, mutation, patches[index]);
    if (problem !== undefined)
      return `mutation ${mutation.name} ${problem}, so only the webhook can check whether a second run changes more`;
  }
  const changes: readonly Change[] = [
    ...defaults.map((rule): Change => {
      const reads = rule.kind === 'expression' ? valuesRead(policy, rule.expression.program) : [];
      const { segments } = rule.path;
      const isOne = segments.every(({ kind }) => kind === 'field');
      const guard = isOne ? ({ kind: 'present', path: segments } as const) : undefined;
      return { name: `the default of ${rule.path.text}`, writes: [segments], reads, guard };
    }),
    ...mutations.map((mutation, index) => changeOf(policy, mutation, patches[index])),
  ];
  for (const [index, earlier] of changes.entries()) {
    const later = changes
      .slice(index + 1)
      .find(({ writes }) => writes.some((path) => disturbs(path, earlier)));
    if (later !== undefined)
      return `${later.name} changes what ${earlier.name} reads or writes, so only the webhook can check whether a second run changes more`;
  }
  return undefined;
}

/** Whether a later write at this path can alter what a second run of the earlier change does. */
function disturbs(path: Path, { writes, reads, guard }: Change): boolean {
  if (overlapAny([path], reads)) return true;
  if (guard === undefined) return overlapAny([path], writes);
  return overlap(path, guard.path) && !(guard.kind === 'present' && isInside(path, guard.path));
}

function changeOf(policy: CompiledPolicy, mutation: CompiledMutation, patches: Patches | undefined): Change {
  const { name, condition, change } = mutation;
  const guard = guardOf(condition?.program, patches);
  const conditions = condition === undefined ? [] : valuesRead(policy, condition.program);
  const values = valuesRead(policy, change.program);
  const reads = [...conditions, ...values].filter((path) => !isOnlyGuard(path, guard, conditions));
  return { name: `mutation ${name}`, writes: pathsWritten(mutation), reads, guard };
}

/** The guard itself, unless the condition reads its field elsewhere. */
const isOnlyGuard = (path: Path, guard: Guard | undefined, conditions: readonly Path[]): boolean =>
  guard !== undefined &&
  isSame(path, guard.path) &&
  conditions.filter((one) => isSame(one, guard.path)).length === 1;

/** Why the mutation alone is possibly not repeatable, if so. */
function selfProblem(
  policy: CompiledPolicy,
  mutation: CompiledMutation,
  patches: Patches | undefined,
): string | undefined {
  const { condition, change } = mutation;
  if (guardOf(condition?.program, patches) !== undefined) return undefined;
  if (overlapAny(valuesRead(policy, change.program), pathsWritten(mutation))) return 'reads what it writes';
  const operations = patches === undefined ? [] : operationsIn(patches);
  if (operations.some(({ op }) => op === 'remove'))
    return 'removes a field without the condition that it exists';
  if (operations.some(({ keys }) => /^(-|\d+)$/.test(keys.at(-1) ?? ''))) return 'may add an item to a list';
  const isUndone = operations.some((first, index) =>
    operations.slice(index + 1).some(({ keys }) => isInside(fieldsPath(first.keys), fieldsPath(keys))),
  );
  return isUndone ? 'writes a field and then its parent' : undefined;
}

function operationsIn(patches: Patches): readonly Operation[] {
  switch (patches.kind) {
    case 'merge':
      return [];
    case 'operations':
      return patches.operations;
    case 'joined':
      return patches.parts.flatMap(operationsIn);
    case 'choice':
      return [patches.whenTrue, patches.whenFalse].flatMap(operationsIn);
  }
}

/** The condition is false while the field exists, is absent, or, as a list, contains a certain item. */
interface Guard {
  readonly kind: 'present' | 'absent' | 'contains';
  readonly path: Path;
}

const isSame = (a: Path, b: Path): boolean => a.length === b.length && overlap(a, b);

/** One of the conditions joined by `&&`, if the mutation certainly makes it false. */
function guardOf(condition: CelProgram | undefined, patches: Patches | undefined): Guard | undefined {
  if (condition === undefined || patches === undefined) return undefined;
  const effects = effectsOf(patches);
  const operations = patches.kind === 'operations' ? patches.operations : [];
  const [guard] = conjuncts(parseExpression(condition.expression).expression).flatMap(
    (test): readonly Guard[] => [
      ...fieldTests(test).filter((one) => isEffect(one, effects)),
      ...itemTests(test).filter((one) => isAppended(one, operations)),
    ],
  );
  return guard;
}

const conjuncts = (expression: Expression): readonly Expression[] =>
  expression.kind === 'call' && expression.name === '_&&_'
    ? expression.arguments.flatMap(conjuncts)
    : [expression];

/** `has(object.a.b)` requires that the mutation removes the field, and its negation that the mutation adds it. */
function fieldTests(expression: Expression): readonly Guard[] {
  const negated = negatedBy(expression);
  const keys = hasField(negated ?? expression);
  return keys === undefined
    ? []
    : [{ kind: negated === undefined ? 'absent' : 'present', path: fieldsPath(keys) }];
}

const negatedBy = (expression: Expression): Expression | undefined =>
  expression.kind === 'call' && expression.name === '!_' ? expression.arguments[0] : undefined;

function hasField(expression: Expression): readonly string[] | undefined {
  if (expression.kind === 'select' && expression.mode === 'test') return keysOf(expression);
  const [key, container] = membership(expression);
  const keys = container && keysOf(container);
  return keys === undefined || typeof key !== 'string' ? undefined : [...keys, key];
}

const keysOf = (expression: Expression): readonly string[] | undefined =>
  pathFrom(expression, 'object')?.map(({ name }) => name);

function membership(
  expression: Expression,
): readonly [constant?: unknown, container?: Expression | undefined] {
  if (expression.kind !== 'call' || expression.name !== '@in') return [];
  const [item, container] = expression.arguments;
  return item?.kind === 'literal' ? [item.value, container] : [];
}

function isEffect({ kind, path }: Guard, effects: readonly Guard[]): boolean {
  const last = effects.findLast((effect) => overlap(effect.path, path));
  if (last?.kind !== kind) return false;
  return isSame(last.path, path) || (kind === 'present' && isInside(last.path, path));
}

/** What certainly happens, in order. Empty if it depends on a condition or on the length of a list. */
function effectsOf(patches: Patches): readonly Guard[] {
  switch (patches.kind) {
    case 'merge':
      return mergeEffects([], patches.entries);
    case 'operations': {
      const isCertain = patches.operations.every(({ keys }) => pointerPath(keys).length === keys.length);
      return isCertain ? patches.operations.map(({ op, keys }) => effect(keys, op !== 'remove')) : [];
    }
    case 'joined': {
      const parts = patches.parts.map(effectsOf);
      return parts.some((part) => part.length === 0) ? [] : parts.flat();
    }
    case 'choice':
      return [];
  }
}

const effect = (keys: readonly string[], isPresent: boolean): Guard => ({
  kind: isPresent ? 'present' : 'absent',
  path: fieldsPath(keys),
});

const mergeEffects = (keys: readonly string[], entries: ReadonlyMap<string, Written>): readonly Guard[] =>
  [...entries].flatMap(([key, written]): readonly Guard[] => {
    const path = [...keys, key];
    if (written.kind === 'map' && written.entries.size > 0) return mergeEffects(path, written.entries);
    return [effect(path, written.kind !== 'null')];
  });

interface ItemTest extends Guard {
  readonly keys: readonly string[];
  readonly isItem: (value: Written) => boolean;
}

const isConstant = (written: Written | undefined, constant: unknown): boolean =>
  written?.kind === 'value' && written.constant !== undefined && written.constant === constant;

/** `!object.a.exists(x, x.name == "b")` and `!("b" in object.a)`: the list must lack the item. */
function itemTests(expression: Expression): readonly ItemTest[] {
  const test = negatedBy(expression);
  const [constant, container] = test === undefined ? [] : membership(test);
  if (container !== undefined) return itemTest(container, (written) => isConstant(written, constant));
  if (test?.kind !== 'comprehension' || test.macro !== 'exists') return [];
  const [variable = ''] = test.variables;
  const [key, wanted] = comparedField(test.body, variable);
  if (key === undefined || test.variables.length > 1) return [];
  return itemTest(
    test.range,
    (written) => written.kind === 'map' && isConstant(written.entries.get(key), wanted),
  );
}

function itemTest(list: Expression, isItem: ItemTest['isItem']): readonly ItemTest[] {
  const keys = keysOf(list);
  return keys === undefined ? [] : [{ kind: 'contains', path: fieldsPath(keys), keys, isItem }];
}

function comparedField(body: Expression, variable: string): readonly [key?: string, constant?: unknown] {
  if (body.kind !== 'call' || body.name !== '_==_') return [];
  const [field, constant] = body.arguments;
  const [key, ...more] = (field && pathFrom(field, variable)) ?? [];
  if (key === undefined || more.length > 0 || constant?.kind !== 'literal') return [];
  return [key.name, constant.value];
}

/** Whether one operation appends the item, and no other operation changes the list or its parents. */
function isAppended({ keys, isItem }: ItemTest, operations: readonly Operation[]): boolean {
  const touching = operations.filter((one) => overlap(fieldsPath(one.keys), fieldsPath(keys)));
  const [only, ...others] = touching;
  if (only?.op !== 'add' || only.written === undefined || others.length > 0) return false;
  return isSame(fieldsPath(only.keys), fieldsPath([...keys, '-'])) && isItem(only.written);
}

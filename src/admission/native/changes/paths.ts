import { type CelProgram, onCelError } from '../../../cel/cel.ts';
import { withoutDyn, type Expression } from '../../../cel/syntax/expression.ts';
import { parseExpression } from '../../../cel/syntax/parse.ts';
import type { Segment } from '../../../json/field-path.ts';
import { unescapePart } from '../../../json/json-patch.ts';
import type { CompiledDefault, CompiledMutation, CompiledPolicy } from '../../policy/compiled-policy.ts';
import { stepsIn } from '../../policy/expressions/expression.ts';

/** The field and everything in it; an empty path is the whole object. */
export type Path = readonly Segment[];

const ANYTHING: Path = [];

export const fieldsPath = (names: readonly string[]): Path => names.map((name) => ({ kind: 'field', name }));

/** Whether one path may lead to the value of the other, or into it. */
export const overlap = (a: Path, b: Path): boolean =>
  a.slice(0, b.length).every((segment, depth) => mayBeEqual(segment, b[depth] ?? segment));

/** Whether the first path leads into the value of the second, and nowhere else. */
export const isInside = (inner: Path, outer: Path): boolean =>
  inner.length > outer.length && overlap(inner, outer);

export const overlapAny = (some: readonly Path[], others: readonly Path[]): boolean =>
  some.some((one) => others.some((other) => overlap(one, other)));

function mayBeEqual(a: Segment, b: Segment): boolean {
  if (a.kind === 'field' || b.kind === 'field')
    return a.kind === 'field' && b.kind === 'field' && a.name === b.name;
  return a.kind === 'each' || b.kind === 'each' || a.index === b.index;
}

/** The fields whose values the expression reads, directly or through variables. */
export const valuesRead = (policy: CompiledPolicy, program: CelProgram): readonly Path[] =>
  stepsIn(policy, program).map((steps) => fieldsPath(steps.map(({ name }) => name)));

/** Includes the parents: `object.spec.tier` depends on every change that may create a `spec`. */
export function existenceRead(policy: CompiledPolicy, program: CelProgram): readonly Path[] {
  return stepsIn(policy, program).map((steps) => {
    const first = steps.findIndex(
      ({ name, strict }, depth) => strict && !(depth === 0 && name === 'metadata'),
    );
    return fieldsPath((first < 0 ? steps : steps.slice(0, first + 1)).map(({ name }) => name));
  });
}

export const pathsWritten = (mutation: CompiledMutation): readonly Path[] => writtenBy(mutation, pointerPath);

/** The keys of the paths that a change writes. An item of a list has its index, `-` or `*`. */
export function keysWritten(change: CompiledMutation | CompiledDefault): readonly (readonly string[])[] {
  const paths = 'change' in change ? writtenBy(change, fieldsPath) : [change.path.segments];
  return paths.map((path) => path.map((one) => (one.kind === 'field' ? one.name : '*')));
}

const writtenBy = ({ type, change }: CompiledMutation, ofPointer: typeof fieldsPath): readonly Path[] =>
  onCelError(
    () => {
      const { expression } = parseExpression(change.program.expression);
      return type === 'Merge' ? mergedBelow(ANYTHING, expression) : patchedBy(expression, ofPointer);
    },
    () => [ANYTHING],
  );

function mergedBelow(path: Path, written: Expression): readonly Path[] {
  const expression = withoutDyn(written);
  if (expression.kind === 'call' && expression.name === '_?_:_')
    return expression.arguments.slice(1).flatMap((branch) => mergedBelow(path, branch));
  if (expression.kind !== 'map' || (expression.entries.length === 0 && path.length > 0)) return [path];
  return expression.entries.flatMap(({ key, value }) =>
    key.kind === 'literal' && typeof key.value === 'string'
      ? mergedBelow([...path, { kind: 'field', name: key.value }], value)
      : [path],
  );
}

/** The parents that a JSON patch needs, because it creates none. Every object has metadata. */
export function parentsNeeded(mutation: CompiledMutation): readonly Path[] {
  if (mutation.type === 'Merge') return [];
  const isCertain = (path: Path): boolean =>
    path.length === 1 && path.every((segment) => segment.kind === 'field' && segment.name === 'metadata');
  return pathsWritten(mutation)
    .map((path) => path.slice(0, -1))
    .filter((path) => path.length > 0 && !isCertain(path));
}

function patchedBy(written: Expression, ofPointer: typeof fieldsPath): readonly Path[] {
  const expression = withoutDyn(written);
  if (expression.kind === 'call' && (expression.name === '_?_:_' || expression.name === '_+_'))
    return expression.arguments
      .slice(expression.name === '_+_' ? 0 : 1)
      .flatMap((part) => patchedBy(part, ofPointer));
  if (expression.kind !== 'list') return [ANYTHING];
  return expression.items.map((item) => {
    const value = withoutDyn(item.value);
    const entries = value.kind === 'map' ? value.entries : [];
    const path = entries.find(({ key }) => key.kind === 'literal' && key.value === 'path')?.value;
    if (path?.kind !== 'literal' || typeof path.value !== 'string') return ANYTHING;
    return ofPointer(path.value.split('/').slice(1).map(unescapePart));
  });
}

/** Up to the first key that may be a list index, because a change there moves the later items. */
export function pointerPath(keys: readonly string[]): Path {
  const item = keys.findIndex((key) => key === '-' || /^[-+]?\d+$/.test(key));
  return fieldsPath(item < 0 ? keys : keys.slice(0, item));
}

import { withoutDyn, type Expression } from '../../../cel/syntax/expression.ts';
import { pointerOf, pointerPart, unescapePart } from '../../../json/json-patch.ts';
import type { CompiledMutation } from '../../policy/compiled-policy.ts';
import { mapText, NeedsWebhook, valueText, writtenBy, type Reader, type Written } from './written-value.ts';

export type Patches =
  | { readonly kind: 'merge'; readonly entries: ReadonlyMap<string, Written> }
  | { readonly kind: 'operations'; readonly operations: readonly Operation[] }
  | { readonly kind: 'joined'; readonly parts: readonly Patches[] }
  | {
      readonly kind: 'choice';
      readonly condition: Expression;
      readonly whenTrue: Patches;
      readonly whenFalse: Patches;
    };

export interface Operation {
  readonly op: 'add' | 'replace' | 'remove';
  /** Unescaped. */
  readonly keys: readonly string[];
  readonly written: Written | undefined;
}

/** @throws NeedsWebhook if the API server cannot make the same change */
export function patchesOf({ type }: Pick<CompiledMutation, 'type'>, reader: Reader): Patches {
  const read = type === 'Merge' ? mergeOf : operationsOf;
  const visit = (written: Expression): Patches => {
    const expression = withoutDyn(written);
    if (expression.kind !== 'call') return read(expression, reader);
    const [first, second, third] = expression.arguments;
    if (expression.name === '_?_:_' && first && second && third)
      return { kind: 'choice', condition: first, whenTrue: visit(second), whenFalse: visit(third) };
    if (type === 'JSONPatch' && expression.name === '_+_' && first && second)
      return { kind: 'joined', parts: [visit(first), visit(second)] };
    return read(expression, reader);
  };
  return visit(reader.expression);
}

function mergeOf(expression: Expression, reader: Reader): Patches {
  const written = expression.kind === 'map' ? writtenBy(expression, reader) : undefined;
  if (written?.kind === 'map') return { kind: 'merge', entries: written.entries };
  throw new NeedsWebhook('its expression is not a map literal');
}

function operationsOf(expression: Expression, reader: Reader): Patches {
  if (expression.kind !== 'list') throw new NeedsWebhook('its expression is not a list literal');
  const operations = expression.items.map(({ value, optional }) => {
    if (optional) throw new NeedsWebhook('its expression has optional entries');
    return operationOf(value, reader);
  });
  return { kind: 'operations', operations };
}

function operationOf(written: Expression, reader: Reader): Operation {
  const expression = withoutDyn(written);
  const entries = expression.kind === 'map' ? expression.entries : [];
  const parts = new Map(
    entries.map(({ key, value }) => [key.kind === 'literal' ? key.value : undefined, value]),
  );
  const [op, path] = ['op', 'path'].map((name) => {
    const part = parts.get(name);
    return part?.kind === 'literal' ? part.value : undefined;
  });
  const value = parts.get('value');
  const isKnown = op === 'add' || op === 'replace' || op === 'remove';
  if (!isKnown || typeof path !== 'string' || entries.length !== (op === 'remove' ? 2 : 3))
    throw new NeedsWebhook(
      'an operation of its expression is not a literal; write {"op": "add", "path": "/a/b", "value": …}, replace or remove',
    );
  const keys = keysOf(path);
  if (op === 'remove') return { op, keys, written: undefined };
  if (value === undefined) throw new NeedsWebhook('an operation of its expression lacks a value');
  return { op, keys, written: writtenBy(value, reader) };
}

/** Go reads -1 and 01 as list indexes, and accepts a pointer without a slash. */
function keysOf(pointer: string): readonly string[] {
  const keys = pointer.split('/').slice(1).map(unescapePart);
  const isUsual = keys.every((key) => !/^[-+]?\d+$/.test(key) || /^(0|[1-9]\d{0,8})$/.test(key));
  if (keys.length > 0 && isUsual && pointerOf(keys) === pointer) return keys;
  throw new NeedsWebhook(`the API server and the webhook may read the path "${pointer}" differently`);
}

/** CEL for a list of JSON patches. @param filled the paths of defaults before it */
export function patchesText(
  patches: Patches,
  textOf: Reader['textOf'],
  filled: readonly (readonly string[])[],
): string {
  switch (patches.kind) {
    case 'merge':
      return merging({ ...ROOT, filled }, patches.entries);
    case 'operations': {
      const texts = patches.operations.flatMap(operationTexts);
      return `[${texts.join(', ')}]`;
    }
    case 'joined':
      return sum(patches.parts.map((part) => patchesText(part, textOf, filled)));
    case 'choice': {
      const [whenTrue, whenFalse] = [patches.whenTrue, patches.whenFalse].map((one) =>
        patchesText(one, textOf, filled),
      );
      return `(${textOf(patches.condition)} ? ${whenTrue} : ${whenFalse})`;
    }
  }
}

function sum(lists: readonly string[]): string {
  const some = lists.filter((one) => one !== '[]');
  return some.length === 0 ? '[]' : some.join(' + ');
}

interface MergePlace extends Place {
  readonly filled: readonly (readonly string[])[];
}

/** Like `mergeInto` in ../../../json/merge-patch.ts, into a map. */
const merging = (place: MergePlace, entries: ReadonlyMap<string, Written>): string =>
  sum([...entries].map(([key, written]) => mergingMember(place, key, written)));

function mergingMember(place: MergePlace, key: string, written: Written): string {
  const member = memberOf(place, key);
  const exists = `${JSON.stringify(key)} in ${place.value}`;
  switch (written.kind) {
    case 'null':
      return `(${exists} ? [${patch('remove', member)}] : [])`;
    case 'value':
      return `[${patch('add', member, written.text)}]`;
    case 'map': {
      const added = `[${patch('add', member, created(written))}]`;
      const filled = place.filled.flatMap(([first, ...rest]) =>
        first === key && rest.length > 0 ? [rest] : [],
      );
      const isFilled = filled.some((path) => isMissing(path, written));
      const merged = merging({ ...member, filled }, written.entries);
      const isMap = `type(${member.value}) == map`;
      if (!isFilled) return `(${exists} && ${isMap} ? ${merged} : ${added})`;
      // The webhook refuses this: a default does not fill a value other than a map, but would fill the new map.
      const failing = `[${patch('remove', memberOf(member, 'gatehouse'))}]`;
      return `(!(${exists}) ? ${added} : ${isMap} ? ${merged} : ${failing})`;
    }
  }
}

function isMissing([first, ...rest]: readonly string[], written: Written): boolean {
  if (first === undefined || written.kind !== 'map') return false;
  const member = written.entries.get(first);
  return member === undefined || member.kind === 'null' || isMissing(rest, member);
}

function created(written: Exclude<Written, { kind: 'null' }>): string {
  if (written.kind === 'value') return written.text;
  return mapText(
    [...written.entries].flatMap(([key, inner]) => (inner.kind === 'null' ? [] : [[key, created(inner)]])),
  );
}

/** `replace` becomes remove and add: the API server would add what it cannot replace, but fails if it cannot remove. */
function operationTexts({ op, keys, written }: Operation): readonly string[] {
  const place: Place = { value: '', pointer: [JSON.stringify(pointerOf(keys))] };
  return [
    ...(op === 'add' ? [] : [patch('remove', place)]),
    ...(op === 'remove' ? [] : [patch('add', place, written && valueText(written))]),
  ];
}

/** A value in the object, and the JSON pointer to it. Both are CEL. */
export interface Place {
  readonly value: string;
  readonly pointer: readonly string[];
}

export const ROOT: Place = { value: 'object', pointer: [] };

export const below = ({ value, pointer }: Place, access: string, part: string): Place => ({
  value: `${value}${access}`,
  pointer: [...pointer, part],
});

export const memberOf = (place: Place, name: string): Place =>
  below(place, `[${JSON.stringify(name)}]`, JSON.stringify(pointerPart(name)));

export const patch = (op: 'add' | 'remove', { pointer }: Place, value?: string): string =>
  `JSONPatch{op: "${op}", path: ${pointer.join(' + ')}${value === undefined ? '' : `, value: ${value}`}}`;

/** Almost valid inputs: the first check would reject invalid ones before they reach the rest of the code. */
import fc from 'fast-check';

import {
  isJsonArray,
  isJsonObject,
  parseJson,
  type JsonArray,
  type JsonObject,
  type JsonValue,
} from '../../src/json/json.ts';

const TOKENS = [
  ...Array.from('"\'{}[],:\\/.*-+()?\n\0\t'),
  ...['&&', '||', '=='],
  ...'null true false 0 -0 1e999 9007199254740993 -9223372036854775809 0.1e-400 1.5'.split(' '),
  ...['__proto__', 'constructor', 'toString', 'object', 'size', 'metadata', 'spec'],
  ...['\ud800', '\u{1f512}', '\u202e', '\ufeff', '\\u0000', '\\ud800', '=', '%', '<', '>'],
  '-----BEGIN CERTIFICATE-----',
];

const token = fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...TOKENS) }, fc.string({ maxLength: 6 }));

type Generated<A> = A extends fc.Arbitrary<infer T> ? T : never;
type TextEdit = Generated<typeof textEdit>;

const textEdit = fc.record({
  /** The position in the text, in [0, 1). */
  at: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
  drop: fc.oneof(fc.constant(0), fc.nat({ max: 12 }), fc.nat({ max: 400 })),
  insert: fc.oneof(fc.constant(''), token),
  times: fc.oneof({ weight: 20, arbitrary: fc.constant(1) }, fc.integer({ min: 2, max: 300 })),
});

export function mutatedText(texts: readonly string[]): fc.Arbitrary<string> {
  return fc
    .tuple(fc.constantFrom(...texts), fc.array(textEdit, { maxLength: 5 }))
    .map(([text, edits]) => edits.reduce(editText, text));
}

function editText(text: string, { at, drop, insert, times }: TextEdit): string {
  const place = Math.floor(at * (text.length + 1));
  return text.slice(0, place) + insert.repeat(times) + text.slice(place + drop);
}

const integer = fc
  .oneof(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), fc.bigInt({ min: -9n, max: 9n }))
  .map((value) => (Number.isSafeInteger(Number(value)) ? Number(value) : value));

const { json } = fc.letrec<{ json: JsonValue; list: JsonValue; object: JsonValue }>((tie) => ({
  json: fc.oneof(
    { depthSize: 'small' },
    token,
    integer,
    fc.boolean(),
    fc.constant(null),
    // Parsed again: the parser returns an integer for a double that is a large integer.
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => parseJson(JSON.stringify(value))),
    tie('list'),
    tie('object'),
  ),
  list: fc.array(tie('json'), { maxLength: 4 }),
  object: fc
    .array(fc.tuple(token, tie('json')), { maxLength: 4 })
    .map((entries) => Object.fromEntries(entries)),
}));

export const anyJson: fc.Arbitrary<JsonValue> = json;
export const anyObject: fc.Arbitrary<JsonObject> = fc
  .array(fc.tuple(token, json), { maxLength: 5 })
  .map((entries) => Object.fromEntries(entries));

type Change = 'replace' | 'remove' | 'repeat' | 'append' | 'text';

type JsonEdit = Generated<typeof jsonEdit>;

const jsonEdit = fc.record({
  /** The index of the value, in the order of the document. */
  which: fc.nat({ max: 10_000 }),
  change: fc.constantFrom<Change[]>('replace', 'remove', 'repeat', 'append', 'text', 'text'),
  value: json,
  text: textEdit,
});

/** One of the objects with some changed values. It shares the unchanged values with the original. */
export function mutatedObject(objects: readonly JsonObject[]): fc.Arbitrary<JsonObject> {
  return fc
    .tuple(fc.constantFrom(...objects), fc.array(jsonEdit, { maxLength: 5 }))
    .map(([object, edits]) => edits.reduce(editObject, object));
}

export function pairOf(objects: readonly JsonObject[]): fc.Arbitrary<readonly [JsonObject, JsonObject]> {
  return mutatedObject(objects).chain((one) => fc.tuple(fc.constant(one), mutatedObject([one])));
}

function editObject(object: JsonObject, edit: JsonEdit): JsonObject {
  const counter = { left: edit.which % countOf(object) };
  const edited = editValue(object, edit, counter);
  return isJsonObject(edited) ? edited : object;
}

const countOf = (value: JsonValue): number =>
  isJsonArray(value) || isJsonObject(value)
    ? Object.values(value).reduce<number>((sum, item) => sum + countOf(item), 1)
    : 1;

/** Applies the edit where the counter reaches zero; undefined removes the value. */
function editValue(value: JsonValue, edit: JsonEdit, counter: { left: number }): JsonValue | undefined {
  if (counter.left === 0) {
    counter.left = -1;
    return changed(value, edit);
  }
  counter.left -= 1;
  if (isJsonArray(value)) return editItems(value, edit, counter);
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value).map(([key, item]) => [key, editValue(item, edit, counter)] as const);
  return Object.fromEntries(entries.filter((entry): entry is [string, JsonValue] => entry[1] !== undefined));
}

function editItems(list: JsonArray, edit: JsonEdit, counter: { left: number }): JsonArray {
  return list.flatMap((item) => {
    const edited = editValue(item, edit, counter);
    return edited === undefined ? [] : [edited];
  });
}

function changed(value: JsonValue, { change, value: other, text }: JsonEdit): JsonValue | undefined {
  switch (change) {
    case 'replace':
      return other;
    case 'remove':
      return undefined;
    case 'repeat':
      return isJsonArray(value) ? [...value, ...value] : value;
    case 'append':
      if (isJsonArray(value)) return [...value, other];
      return isJsonObject(value) ? { ...value, [typeof other === 'string' ? other : 'x']: other } : value;
    case 'text':
      return typeof value === 'string' ? editText(value, text) : value;
  }
}

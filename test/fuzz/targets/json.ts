/** JSON text is parsed and written without loss, and JSON patches lead to the wanted object. */
import fc from 'fast-check';

import { applyPatch } from '../../../src/json/json-patch.ts';
import { diff, verifiedDiff } from '../../../src/json/json-diff.ts';
import {
  hasEscapedKey,
  isEqual,
  isJsonArray,
  isJsonObject,
  parseJson,
  type JsonObject,
  type JsonValue,
} from '../../../src/json/json.ts';
import { toJsonText } from '../../../src/json/json-text.ts';
import { anyJson, anyObject, mutatedText, pairOf } from '../mutated.ts';
import { recordedReviews, SERVER } from '../seeds.ts';
import { answerOf, fuzzTarget, hold } from '../target.ts';

/** Above this number of operations below a field of the root, the differ replaces values as a whole. */
const MOST_OPERATIONS = 256;

const isSyntaxError = (error: unknown) => error instanceof SyntaxError;

const texts = fc.oneof(mutatedText(recordedReviews), anyJson.map(toJsonText));

export const jsonText = fuzzTarget('JSON text', 180, texts, (text) => {
  const plain = answerOf(() => JSON.parse(text) as JsonValue, isSyntaxError);
  const value = answerOf(() => parseJson(text), isSyntaxError);
  hold((plain === undefined) === (value === undefined), 'only one of the two parsers accepts it');
  // A number outside the range of a double becomes Infinity. The API server rejects such objects before it calls
  // webhooks.
  if (value === undefined || plain === undefined || isInfinite(plain)) return;
  const again = parseJson(toJsonText(value));
  hold(isEqual(again, value), () => `it reads ${toJsonText(again)} when it was written`);
  // JSON.parse may return other keys for such text: see hasEscapedKey.
  if (hasEscapedKey(text)) return;
  hold(isEqual(asDoubles(value), plain), 'the value differs from that of JSON.parse');
});

function isInfinite(value: JsonValue): boolean {
  if (typeof value === 'number') return !Number.isFinite(value);
  return isJsonArray(value) || isJsonObject(value) ? Object.values(value).some(isInfinite) : false;
}

/** All numbers as doubles, as JSON.parse returns them. */
function asDoubles(value: JsonValue): JsonValue {
  if (typeof value === 'bigint') return Number(value);
  if (isJsonArray(value)) return value.map(asDoubles);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, asDoubles(item)]));
}

const pairs: fc.Arbitrary<readonly [JsonObject, JsonObject]> = fc.oneof(
  pairOf([SERVER]),
  fc.tuple(anyObject, anyObject),
  anyObject.chain((object) => pairOf([object])),
);

export const jsonPatch = fuzzTarget('JSON patch', 130, pairs, ([before, after]) => {
  const text = toJsonText(before);
  const patch = diff(before, after);
  hold(isEqual(applyPatch(before, patch), after), () => `${toJsonText(patch)} leads elsewhere`);
  hold(isEqual(verifiedDiff(before, after), patch), 'the diff fell back to the coarse patch');
  const most = Object.keys(before).length + MOST_OPERATIONS * Object.keys(after).length;
  hold(patch.length <= most, `it has ${patch.length} operations`);
  hold(toJsonText(before) === text, 'the diff changed its input');
  hold(diff(after, after).length === 0, 'equal values have a difference');
});

const ELEMENTS = {
  number: (index: number) => index,
  text: (index: number) => `value ${index}`,
  named: (index: number) => ({ name: `n${index}`, value: index }),
  sameName: (index: number) => ({ name: 'n', value: index }),
  list: (index: number) => [index, [index]],
  alike: () => ({ a: [{ b: 'c' }] }),
} satisfies Readonly<Record<string, (index: number) => JsonValue>>;

const PAIRS = {
  shifted: (make: Make, length: number) => [range(0, length, make), range(1, length + 1, make)],
  shiftedBack: (make: Make, length: number) => [range(1, length + 1, make), range(0, length, make)],
  different: (make: Make, length: number) => [range(0, length, make), range(length, 2 * length, make)],
  reversed: (make: Make, length: number) => [range(0, length, make), range(0, length, make).reverse()],
  thinned: (make: Make, length: number) => [range(0, length, make), everyOther(range(0, length, make))],
  filled: (make: Make, length: number) => [everyOther(range(0, length, make)), range(0, length, make)],
  rotated: (make: Make, length: number) => [range(0, length, make), halvesSwapped(range(0, length, make))],
  lastChanged: (make: Make, length: number) => [
    range(0, length, make),
    [...range(0, length - 1, make), 'other'],
  ],
  emptied: (make: Make, length: number) => [range(0, length, make), []],
} satisfies Readonly<Record<string, (make: Make, length: number) => readonly [JsonValue[], JsonValue[]]>>;

type Make = (index: number) => JsonValue;

const range = (from: number, to: number, make: Make): JsonValue[] =>
  Array.from({ length: Math.max(0, to - from) }, (_, index) => make(from + index));
const everyOther = (list: readonly JsonValue[]) => list.filter((_, index) => index % 2 === 0);
const halvesSwapped = (list: readonly JsonValue[]) => [
  ...list.slice(list.length / 2),
  ...list.slice(0, list.length / 2),
];

const WRAPS = {
  plain: (value: JsonValue): JsonObject => ({ spec: { list: value } }),
  longKey: (value: JsonValue): JsonObject => ({ spec: { ['key/~'.repeat(2_000)]: value } }),
  longKeys: (value: JsonValue): JsonObject => ({
    spec: isJsonArray(value)
      ? Object.fromEntries(value.slice(0, 400).map((item, index) => [`${'k'.repeat(500)}${index}`, item]))
      : {},
  }),
  keys: (value: JsonValue): JsonObject => ({
    spec: isJsonArray(value) ? Object.fromEntries(value.map((item, index) => [String(index), item])) : {},
  }),
  deep: (value: JsonValue): JsonObject => ({ spec: nested(value, 200) }),
  atTheRoot: (value: JsonValue): JsonObject => ({ a: value, b: [value], c: { value } }),
} satisfies Readonly<Record<string, (value: JsonValue) => JsonObject>>;

function nested(value: JsonValue, levels: number): JsonValue {
  let wrapped = value;
  for (let level = 0; level < levels; level += 1) wrapped = level % 3 === 0 ? [wrapped] : { inner: wrapped };
  return wrapped;
}

const keysOf = <Key extends string>(table: Readonly<Record<Key, unknown>>) =>
  fc.constantFrom(...(Object.keys(table) as Key[])); // the constant has exactly the keys of its type

/** Mostly short lengths, because long lists take about a hundred times longer. */
const lengths = fc.oneof(
  { weight: 12, arbitrary: fc.nat({ max: 600 }) },
  { weight: 3, arbitrary: fc.nat({ max: 3_000 }) },
  { weight: 1, arbitrary: fc.constantFrom(9_999, 10_000) },
);

/** The maximum total length of the paths below a field of the root. Above it, the patch has a single operation. */
const MOST_PATHS = 64 * 1024;

const lists = fc.tuple(keysOf(PAIRS), keysOf(ELEMENTS), keysOf(WRAPS), lengths);

export const largeLists = fuzzTarget(
  'JSON patch of long lists',
  2,
  lists,
  ([pair, element, wrap, length]) => {
    const [was, is] = PAIRS[pair](ELEMENTS[element], length);
    const [before, after] = [WRAPS[wrap](was), WRAPS[wrap](is)];
    const patch = diff(before, after);
    hold(isEqual(applyPatch(before, patch), after), 'the patch gives another object');
    const size = toJsonText(patch).length;
    const fields = Object.keys(after).length;
    // The sum of the object, the paths, and `{"op":"replace","path":"","value":},` for each of 256 operations.
    const most = 3 * toJsonText(after).length + fields * (2 * MOST_PATHS + 256 * 40) + 1_000;
    hold(size <= most, () => `the patch has ${size} characters, the object ${toJsonText(after).length}`);
  },
);

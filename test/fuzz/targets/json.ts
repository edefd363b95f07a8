/** JSON text is parsed and written without loss, and JSON patches lead to the wanted object. */
import fc from 'fast-check';

import { applyPatch } from '../../../src/json/json-patch.ts';
import { diff, verifiedDiff } from '../../../src/json/json-diff.ts';
import {
  hasEscapedKey,
  isEqual,
  isJsonArray,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  parseJson,
} from '../../../src/json/json.ts';
import { toJsonText } from '../../../src/json/json-text.ts';
import { anyJson, anyObject, mutatedText, pairOf } from '../mutated.ts';
import { recordedReviews, SERVER } from '../seeds.ts';
import { answerOf, fuzzTarget, hold } from '../target.ts';

/** Above this number of operations below a field of the root, the differ replaces values as a whole. */
const MOST_OPERATIONS = 256;

const isSyntaxError = (error: unknown) => error instanceof SyntaxError;

export const jsonText = fuzzTarget(
  'JSON text',
  180,
  fc.oneof(mutatedText(recordedReviews), anyJson.map(toJsonText)),
  (text) => {
    const plain = answerOf(() => JSON.parse(text) as JsonValue, isSyntaxError);
    const value = answerOf(() => parseJson(text), isSyntaxError);
    hold((plain === undefined) === (value === undefined), () => 'only one of the two parsers accepts it');
    // A number outside the range of a double becomes Infinity. The API server rejects such objects before it calls
    // webhooks.
    if (value === undefined || plain === undefined || isInfinite(plain)) return;
    const again = parseJson(toJsonText(value));
    hold(isEqual(again, value), () => `it reads ${toJsonText(again)} when it was written`);
    // JSON.parse may return other keys for such text: see hasEscapedKey.
    if (hasEscapedKey(text)) return;
    hold(isEqual(asDoubles(value), plain), () => 'the value differs from that of JSON.parse');
  },
);

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
  hold(isEqual(verifiedDiff(before, after), patch), () => 'the diff fell back to the coarse patch');
  const most = Object.keys(before).length + MOST_OPERATIONS * Object.keys(after).length;
  hold(patch.length <= most, () => `it has ${patch.length} operations`);
  hold(toJsonText(before) === text, () => 'the diff changed its input');
  hold(diff(after, after).length === 0, () => 'equal values have a difference');
});

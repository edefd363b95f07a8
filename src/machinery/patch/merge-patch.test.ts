import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isJsonObject, parseJson, type JsonObject, type JsonValue } from '../../json/json.ts';
import type { ApiFailure } from '../failure.ts';
import { applyMergePatch } from './merge-patch.ts';

const parsed = (text: string): JsonObject => {
  const value = parseJson(text);
  if (!isJsonObject(value)) throw new Error(`${text} is not an object`);
  return value;
};

describe('the examples of RFC 7386', () => {
  // The examples whose document is an object, as in the API. Nulls within lists follow the API server.
  test.each([
    ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
    ['{"a":"b"}', '{"a":null}', '{}'],
    ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
    ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
    ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
    ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
    ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
    ['{}', '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
  ])('%s with %s is %s', (object, patch, expected) => {
    expect(applyMergePatch(parsed(object), parsed(patch))).toEqual(parsed(expected));
  });
});

test.each([
  ['[]', 'error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}'],
  [
    '"a"',
    'error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}',
  ],
  ['null', 'Invalid JSON Patch'],
])('%s is rejected as a bad request', (patch, message) => {
  expect(() => applyMergePatch({}, parseJson(patch))).toThrow(
    expect.objectContaining({
      message,
      status: expect.objectContaining({ code: 400 }) as unknown,
    }) as ApiFailure,
  );
});

test('null fields within list items are dropped, and the items stay', () => {
  expect(applyMergePatch({ a: [1] }, parseJson('{"a":[null,{"b":null,"c":[{"d":null}]}]}'))).toEqual({
    a: [null, { c: [{}] }],
  });
});

test('a list that replaces an object keeps its nulls', () => {
  expect(applyMergePatch({ a: {} }, { a: [{ b: null }] })).toEqual({ a: [{ b: null }] });
});

test('keys with a meaning in JavaScript are plain data', () => {
  const keys = ['__proto__', 'constructor', 'prototype', 'hasOwnProperty', 'toString', 'toJSON'];
  for (const key of keys) {
    const patched = applyMergePatch(
      parsed(`{"data":{"${key}":{"old":1},"x":1}}`),
      parsed(`{"data":{"${key}":{"new":2},"y":2}}`),
    );
    expect(JSON.stringify(patched)).toBe(`{"data":{"${key}":{"old":1,"new":2},"x":1,"y":2}}`);
    expect(JSON.stringify(applyMergePatch(patched, parsed(`{"data":{"${key}":null,"x":null}}`)))).toBe(
      '{"data":{"y":2}}',
    );
  }
});

test('big integers are exact', () => {
  expect(applyMergePatch({ a: 9_007_199_254_740_993n }, { b: 9_007_199_254_740_995n })).toEqual({
    a: 9_007_199_254_740_993n,
    b: 9_007_199_254_740_995n,
  });
});

/** The pseudocode of the RFC, for objects with any keys. */
function reference(target: JsonValue | undefined, patch: JsonValue): JsonValue {
  if (!isJsonObject(patch)) return patch;
  const result = new Map(Object.entries(isJsonObject(target) ? target : {}));
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) result.delete(key);
    else result.set(key, reference(result.get(key), value));
  }
  return Object.fromEntries(result);
}

test("every patch gives the RFC's result and does not mutate the object", () => {
  const key = fc.constantFrom('a', 'b', 'constructor', '__proto__', 'length');
  const { object } = fc.letrec<{ object: JsonObject; value: JsonValue }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom(null, 1, 'x', true),
      fc.array(fc.constantFrom<JsonValue>(1, 'y', null)),
      tie('object'),
    ),
    object: fc.array(fc.tuple(key, tie('value'))).map((entries) => Object.fromEntries(entries)),
  }));
  fc.assert(
    fc.property(object, object, (target, patch) => {
      const before = JSON.stringify(target);
      expect(JSON.stringify(applyMergePatch(target, patch))).toBe(JSON.stringify(reference(target, patch)));
      expect(JSON.stringify(target)).toBe(before);
    }),
  );
});

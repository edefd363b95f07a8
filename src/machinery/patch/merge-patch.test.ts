import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isJsonObject, parseJson, type JsonObject, type JsonValue } from '../../json/json.ts';
import { applyMergePatch } from './json-patch.ts';

test('null fields within list items are dropped, and the items remain', () => {
  expect(applyMergePatch({ a: [1] }, parseJson('{"a":[null,{"b":null,"c":[{"d":null}]}]}'))).toEqual({
    a: [null, { c: [{}] }],
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

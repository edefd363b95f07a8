import { expect, test } from 'vitest';

import { parseJson, stringifyJson, type JsonValue } from './json.ts';
import { toJsonText } from './json-text.ts';

const deep = (levels: number, wrap: (value: JsonValue) => JsonValue): JsonValue => {
  let value: JsonValue = 9007199254740993n;
  for (let level = 0; level < levels; level += 1) value = wrap(value);
  return value;
};

test.each<[string, (value: JsonValue) => JsonValue]>([
  ['objects', (value) => ({ b: 1, 'a"': value, ['__proto__']: null })],
  ['lists', (value) => ['x', value, true]],
  ['both', (value) => [{ a: [value, {}] }, []]],
])('%s 20,000 levels deep are written, without loss', (_what, wrap) => {
  const value = deep(20_000, wrap);
  expect(() => stringifyJson(value)).toThrow(RangeError);
  const text = toJsonText(value);
  expect(toJsonText(parseJson(text))).toBe(text);
  const few = deep(3, wrap);
  expect(text).toContain(stringifyJson(few));
});

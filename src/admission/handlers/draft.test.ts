import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { isEqual, parseJson, stringifyJson } from '../../json/json.ts';
import { copyJson, InvalidDraft } from './draft.ts';

const cycle = () => {
  const object: Record<string, unknown> = { spec: { disks: [{}] } };
  (object.spec as { disks: object[] }).disks.push(object);
  return object;
};

describe('an error contains the field that JSON cannot represent', () => {
  test.each<[string, object, string]>([
    ['undefined', { spec: { tier: undefined } }, 'spec.tier: it is undefined; delete the field'],
    ['a hole in a list', { list: [1, , 2] }, 'list[1]: it is undefined'], // eslint-disable-line no-sparse-arrays
    ['a function', { spec: { run: () => 1 } }, 'spec.run: it is a function'],
    ['a date', { spec: { at: new Date(0) } }, 'spec.at: it is a Date, not a plain object'],
    ['NaN', { spec: { units: Number.NaN } }, 'spec.units: it is NaN'],
    ['an integer beyond 64 bits', { spec: { units: 2n ** 63n } }, 'spec.units: it is an integer longer'],
    ['a cycle', cycle(), 'spec.disks[1]: it contains itself'],
    ['a key with dots', { metadata: { labels: { 'a.b/c': undefined } } }, 'metadata.labels["a.b/c"]'],
    ['a list for the object', [], 'the draft: it is a list'],
    ['a long list', { list: Object.assign([], { length: 2 ** 31 }) }, 'list: the list is too long'],
  ])('%s', (_what, draft, message) => {
    expect(() => copyJson(draft)).toThrow(InvalidDraft);
    expect(() => copyJson(draft)).toThrow(message);
  });

  test('a value that is shared many times does not exhaust memory', () => {
    let value: object = { text: 'x' };
    for (let level = 0; level < 40; level += 1) value = { a: value, b: value };
    expect(() => copyJson(value)).toThrow('too large');
  });

  test('a text that no object can hold is not sent', () => {
    expect(copyJson({ text: 'x'.repeat(3_000_000) })).toBeDefined();
    for (const draft of [{ text: 'x'.repeat(21_000_000) }, { ['x'.repeat(21_000_000)]: 1 }])
      expect(() => copyJson(draft)).toThrow('the object is too large to send');
  });
});

test('keys with a meaning in JavaScript are data', () => {
  const text =
    '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"a":[{"__proto__":2}]}';
  const copy = copyJson(parseJson(text) as object);
  expect(stringifyJson(copy)).toBe(text);
  expect(({} as Record<string, unknown>).polluted).toBeUndefined();
});

test('10,000 levels are accepted, more are refused', () => {
  const nested = (levels: number) => parseJson(`${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`) as object;
  expect(isEqual(copyJson(nested(9_999)), nested(9_999))).toBe(true);
  expect(() => copyJson(nested(10_001))).toThrow('levels deep');
});

test('every JSON value is copied in full and shares nothing with the input', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
      const before = parseJson(JSON.stringify(value)) as object;
      const copy = copyJson(before);
      expect(isEqual(copy, before)).toBe(true);
      for (const [key, inner] of Object.entries(copy)) {
        if (typeof inner === 'object' && inner !== null) expect(inner).not.toBe(Reflect.get(before, key));
      }
    }),
  );
});

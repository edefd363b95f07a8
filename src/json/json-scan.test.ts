import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { hasEscapedKey, hasUnsafeInteger as isFound, isDeeperThan } from './json.ts';

const hasUnsafeInteger = (text: string) => isFound(Buffer.from(text));

describe('an integer that a double would change', () => {
  test.each([
    '9007199254740992',
    '-9007199254740993',
    '[1,9007199254740993]',
    '[-9007199254740993,1]',
    '{"a": 9007199254740993\n}',
    '{"a":123456789012345678901234567890}',
    '[9007199254740991,9007199254740993]',
    '[1.2345678901234567,9007199254740993]',
  ])('is found in %s', (text) => {
    for (let shift = 0; shift < 40; shift += 1) expect(hasUnsafeInteger(' '.repeat(shift) + text)).toBe(true);
  });

  test.each([
    '9007199254740991',
    '1732212345678901',
    '"9007199254740993"',
    '"sha256:9007199254740993a0"',
    '"a90071992547409930123456789"',
    '0.9007199254740993',
    '9007199254740993.5',
    '9007199254740993e2',
    '900719925474099 9007199254740',
  ])('is not reported for %s', (text) => {
    for (let shift = 0; shift < 40; shift += 1)
      expect(hasUnsafeInteger(' '.repeat(shift) + text)).toBe(false);
  });

  test('is found at any position', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.integer(), fc.double({ noNaN: true }), fc.bigInt({ min: 0n, max: 2n ** 64n }))),
        fc.nat(4),
        (values, indent) => {
          const texts = values.map((value) =>
            typeof value === 'bigint' ? String(value) : JSON.stringify(value),
          );
          const integers = texts.filter((text) => /^-?\d+$/.test(text));
          expect(hasUnsafeInteger(`[${texts.join(`,${' '.repeat(indent)}`)}]`)).toBe(
            integers.some((text) => !Number.isSafeInteger(Number(text))),
          );
        },
      ),
    );
  });
});

describe('depth', () => {
  const lists = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
  const objects = (levels: number) => '{"":'.repeat(levels) + '1' + '}'.repeat(levels);
  const both = (levels: number) => lists(levels >> 1).replace('[]', `[${objects(levels - (levels >> 1))}]`);

  test('is counted exactly', () => {
    for (const nested of [lists, objects, both]) {
      expect([isDeeperThan(20, nested(20)), isDeeperThan(20, nested(21))]).toEqual([false, true]);
    }
  });

  test('does not count siblings or the content of strings', () => {
    expect(isDeeperThan(2, `[${Array.from({ length: 100 }, () => '{}').join(',')}]`)).toBe(false);
    expect(isDeeperThan(2, `["${'['.repeat(100)}","\\"${'{'.repeat(100)}"]`)).toBe(false);
    expect(isDeeperThan(2, `["\\\\",[[["a"]]]]`)).toBe(true);
  });

  test('is also counted in text that is not JSON', () => {
    expect(isDeeperThan(10, '['.repeat(100))).toBe(true);
    expect(isDeeperThan(10, `"${'['.repeat(100)}`)).toBe(false);
    expect(isDeeperThan(10, ']'.repeat(100) + '['.repeat(50))).toBe(false);
  });
});

describe('a key with an escape', () => {
  test.each(['{"\\"":1}', '{"a":"\\n","b":{"\\u003c" \n: 1}}', '{"a\\\\":1}', '{"a":"\\\\","b\\t":"\\""}'])(
    'is found in %s',
    (text) => {
      expect(hasEscapedKey(text)).toBe(true);
    },
  );

  test.each([
    '{"a":1}',
    '{"a":"\\""}',
    '{"a":"\\":","b":["\\\\","\\u0041"]}',
    '"\\""',
    '{"a":"{\\"b\\":1}"}',
    '',
  ])('is not found in %s', (text) => {
    expect(hasEscapedKey(text)).toBe(false);
  });

  test('is found at any position', () => {
    const keys = fc.oneof(fc.string(), fc.constantFrom('"', '\\', '\n', 'a"b', '\\\\'));
    fc.assert(
      fc.property(fc.array(fc.tuple(keys, fc.string())), fc.nat(2), (entries, indent) => {
        const text = JSON.stringify(Object.fromEntries(entries), undefined, indent);
        const isEscaped = ([key]: readonly [string, string]) => JSON.stringify(key).includes('\\');
        expect(hasEscapedKey(text)).toBe(entries.some(isEscaped));
      }),
    );
  });
});

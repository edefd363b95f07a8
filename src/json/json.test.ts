import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { isEqual, ownValue, parseJson, stringifyJson, textIn, valueIn, type JsonValue } from './json.ts';
import { toCanonicalText } from './json-text.ts';

const deep = (levels: number, leaf: string) => `${'{"a":['.repeat(levels)}${leaf}${']}'.repeat(levels)}`;

describe('parseJson', () => {
  test.each([
    ['9007199254740991', 9007199254740991],
    ['9007199254740992', 9007199254740992n],
    ['9007199254740993', 9007199254740993n],
    ['-9007199254740993', -9007199254740993n],
    ['9223372036854775807', 9223372036854775807n],
    ['9223372036854775808', 2 ** 63], // beyond int64 the API server also reads a double
    ['0.12345678901234567', Number('0.12345678901234567')],
    ['1e20', 1e20],
    ['1234567890123456e-3', Number('1234567890123456e-3')],
    ['"9007199254740993"', '9007199254740993'],
    ['"a \\"9007199254740993\\\\"', 'a "9007199254740993\\'],
  ])('%s is read exactly', (text, value) => {
    expect(parseJson(` [ ${text} , {"n":${text}} ] `)).toEqual([value, { n: value }]);
  });

  test.each(['"', '<', '\n', '/', 'A', '\u2028'])(
    'a key with an escape is not confused with another key: %j',
    (character) => {
      const escaped = `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
      const unlike = `before ${character}`; // V8 remembers the text of earlier keys
      const text = (key: string) => `{${JSON.stringify(unlike)}:0,"${key}" : 1}`;
      for (const poison of ['\\\\', '\\\\u0', `\\\\${escaped.slice(1)}`]) JSON.parse(text(poison));
      for (const key of [escaped, JSON.stringify(character).slice(1, -1)]) {
        expect(Object.keys(parseJson(text(key)) ?? {})).toEqual([unlike, character]);
      }
    },
  );

  test.each([
    '{"__proto__":{"x":1},"constructor":2}',
    '{"__proto__":{"x":9007199254740993},"constructor":2}',
  ])('__proto__ and constructor are keys like any other: %s', (text) => {
    const value = parseJson(text);
    expect(Object.keys(value as object)).toEqual(['__proto__', 'constructor']);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(stringifyJson(value)).toBe(text);
  });

  test('integers stay exact in objects as deep as the API server accepts', () => {
    const value = parseJson(deep(5_000, '9007199254740993'));
    expect(isEqual(value, parseJson(deep(5_000, '9007199254740993')))).toBe(true);
    expect(isEqual(value, parseJson(deep(5_000, '9007199254740992')))).toBe(false);
  });

  test.each(['', '{', '{"a":1234567890123456', '[1234567890123456,]'])('%s is refused', (text) => {
    expect(() => parseJson(text)).toThrow(SyntaxError);
  });
});

describe('isEqual', () => {
  test('agrees with a comparison of sorted text', () => {
    const small = fc.jsonValue({ maxDepth: 3 });
    fc.assert(
      fc.property(small, small, (a, b) => {
        expect(isEqual(a, structuredClone(a))).toBe(true);
        expect(isEqual(a, b)).toBe(toCanonicalText(a as JsonValue) === toCanonicalText(b as JsonValue));
      }),
    );
  });

  test.each([
    [{ a: 1, b: 2 }, { b: 2, a: 1 }, true],
    [{ a: undefined }, { b: undefined }, false],
    [{}, { toString: 1 }, false],
    [{ toString: 1 }, {}, false],
    [[], {}, false],
    [null, {}, false],
    [[1, 2], [2, 1], false],
    [9007199254740993n, 9007199254740993n, true],
    [1, '1', false],
  ])('%o and %o: %o', (a, b, expected) => {
    expect(isEqual(a, b)).toBe(expected);
  });
});

test('ownValue never reads the prototype', () => {
  expect(['constructor', '__proto__', 'toString'].map((key) => ownValue({}, key))).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});

describe('valueIn and textIn', () => {
  const object = parseJson('{"a":{"b":"text","n":1,"list":["x"],"none":null},"__proto__":{"own":"data"}}');

  test.each<[string[], unknown]>([
    [[], object],
    [['a', 'b'], 'text'],
    [['a', 'n'], 1],
    [['a', 'none'], null],
    [['a', 'none', 'deeper'], undefined],
    [['a', 'missing', 'deeper'], undefined],
    [['a', 'b', 'length'], undefined],
    [['a', 'list', '0'], undefined],
    [['constructor'], undefined],
    [['__proto__', 'own'], 'data'],
  ])('find own keys of objects only: %j', (keys, value) => {
    expect(valueIn(object, ...keys)).toEqual(value);
    expect(textIn(object, ...keys)).toBe(typeof value === 'string' ? value : '');
  });

  test('find nothing in what is no object', () => {
    for (const value of [undefined, null, 1, 'text', ['a']]) expect(valueIn(value, 'a')).toBeUndefined();
  });
});

import { expect, test } from 'vitest';
import { parseJson, stringifyJson } from '../../json/json.ts';
import { celToJson } from './cel-to-json.ts';
import { CelError } from '../cel.ts';
import { evaluate } from '../../../test/support/cel/evaluate.ts';

const jsonOf = (expression: string, bindings?: Readonly<Record<string, unknown>>) =>
  celToJson(evaluate(expression, bindings));

test.each([
  ['null', null],
  ['true', true],
  ["'a'", 'a'],
  ['42', 42],
  ['42u', 42],
  ['9007199254740993', 9007199254740993n],
  ['-9007199254740993', -9007199254740993n],
  ['1.5', 1.5],
  ["b'\\xff\\x00'", '/wA='],
  ["timestamp('2026-01-02T04:04:05.120+01:00')", '2026-01-02T03:04:05.12Z'],
  ["duration('90m')", '1h30m0s'],
  ["duration('1500ms')", '1.5s'],
  ["duration('-1.5ms')", '-1.5ms'],
  ["duration('2us')", '2µs'],
  ["duration('0s')", '0s'],
  ["{'a': [1, {'b': 2.5}]}", { a: [1, { b: 2.5 }] }],
])('%s', (expression, json) => {
  expect(jsonOf(expression)).toEqual(json);
});

test.each([
  ['0.0 / 0.0', 'the double NaN is not a JSON number'],
  ['1.0 / 0.0', 'the double Infinity is not a JSON number'],
  ['{1: 2}', 'a map with a key of type int is not JSON: its keys must be strings'],
  ['type(1)', 'a value of type type is not JSON: convert it to a string or number'],
  ["[quantity('1')]", 'a value of type kubernetes.Quantity is not JSON: convert it to a string or number'],
  ['optional.of(1)', 'an optional is not JSON: use orValue(…) or value()'],
])('%s is not JSON', (expression, message) => {
  expect(() => jsonOf(expression)).toThrow(new CelError(message));
});

test('JSON survives the round trip, including integers beyond 2^53 and unusual keys', () => {
  const text = '{"big":9007199254740993,"list":[1,2.5,9223372036854775807],"__proto__":{"constructor":1}}';
  expect(stringifyJson(jsonOf('object', { object: parseJson(text) }))).toBe(text);
  expect(stringifyJson(jsonOf("{'x': object}", { object: parseJson(text) }))).toBe(`{"x":${text}}`);
  expect(stringifyJson(jsonOf('object.list', { object: parseJson(text) }))).toBe(
    '[1,2.5,9223372036854775807]',
  );
});

test('a key __proto__ that an expression writes is plain data', () => {
  const json = jsonOf("{'__proto__': {'x': 1}}");
  expect(Object.getOwnPropertyNames(json)).toEqual(['__proto__']);
  expect(stringifyJson(json)).toBe('{"__proto__":{"x":1}}');
});

import { expect, test } from 'vitest';
import type { JsonObject, JsonValue } from '../../../json/json.ts';
import { checkRules, rulesSkipped } from './rules.ts';
import type { Schema, ValidationRule } from '../schema.ts';
import { INTEGER, object, STRING } from '../../../../test/support/sandbox/schema.ts';

const ruled = (schema: Schema, ...rules: readonly (string | ValidationRule)[]): Schema => ({
  ...schema,
  'x-kubernetes-validations': rules.map((rule) => (typeof rule === 'string' ? { rule } : rule)),
});

const said = (value: JsonObject, schema: Schema, old?: JsonObject) =>
  checkRules(value, old, schema).map(({ reason, field, message }) => `${reason} ${field}: ${message}`);

/** The messages for `spec.x`. */
const saidOf = (x: JsonValue, schema: Schema, old?: JsonValue) =>
  said(
    { spec: { x } },
    object({ spec: object({ x: schema }) }),
    old === undefined ? undefined : { spec: { x: old } },
  );

test('messageExpression produces the message; if it fails, the static message is used', () => {
  const rule = 'self.a > 5';
  const schema = (messageExpression: string) =>
    ruled(object({ a: INTEGER, b: STRING }), { rule, message: 'plain', messageExpression });
  expect(saidOf({ a: 1 }, schema("'a is ' + string(self.a)"))).toEqual([
    'FieldValueInvalid spec.x: Invalid value: a is 1',
  ]);
  for (const bad of ['self.b', "'  '", "'a\\nb'", 'self.']) {
    expect(saidOf({ a: 1 }, schema(bad))).toEqual(['FieldValueInvalid spec.x: Invalid value: plain']);
  }
});

test('reason and fieldPath set the reason and the place', () => {
  const rule = { rule: 'self.a > 5', message: 'no', fieldPath: '.a' };
  const schema = object({ a: INTEGER });
  expect(
    saidOf(
      { a: 1 },
      ruled(
        schema,
        { ...rule, reason: 'FieldValueForbidden' },
        { ...rule, reason: 'FieldValueRequired' },
        { ...rule, reason: 'FieldValueDuplicate' },
      ),
    ),
  ).toEqual([
    'FieldValueForbidden spec.x.a: Forbidden: no',
    'FieldValueRequired spec.x.a: Required value: no',
    'FieldValueDuplicate spec.x.a: Duplicate value',
  ]);
});

test('rules apply at every level: list items, map values, the object itself', () => {
  const positive = ruled(INTEGER, { rule: 'self > 0', message: 'no' });
  const schema = ruled(
    object({
      l: { type: 'array', items: positive },
      m: { type: 'object', additionalProperties: positive },
      n: { ...positive, nullable: true },
    }),
    { rule: "self.metadata.name.startsWith('a')", message: 'name' },
  );
  expect(said({ metadata: { name: 'b' }, l: [1, 0], m: { 'a.b/c': 0 }, n: null }, schema)).toEqual([
    'FieldValueInvalid <nil>: Invalid value: name',
    'FieldValueInvalid l[1]: Invalid value: 0: no',
    'FieldValueInvalid m[a.b/c]: Invalid value: 0: no',
  ]);
});

test('values have the types of the schema', () => {
  const schema = ruled(
    object({
      ratio: { type: 'number' },
      at: { type: 'string', format: 'date-time' },
      every: { type: 'string', format: 'duration' },
      'a-b': INTEGER,
      in: INTEGER,
      port: { 'x-kubernetes-int-or-string': true },
    }),
    'self.ratio * 2.0 == 6.0',
    "self.at > timestamp('2020-01-01T00:00:00Z')",
    "self.every == duration('90m')",
    'self.a__dash__b + self.__in__ == 3',
    'type(self.port) == int',
  );
  const value = { ratio: 3, at: '2026-01-01T00:00:00Z', every: '1h30m', 'a-b': 1, in: 2, port: 80 };
  expect(saidOf(value, schema)).toEqual([]);
});

test('old items are found by their keys, and only in lists of type map', () => {
  const items = object({ k: STRING, v: ruled(INTEGER, { rule: 'self >= oldSelf', message: 'shrinks' }) });
  const map: Schema = {
    type: 'array',
    items,
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['k'],
  };
  const old = [
    { k: 'a', v: 5 },
    { k: 'b', v: 1 },
  ];
  const now = [
    { k: 'b', v: 3 },
    { k: 'a', v: 4 },
    { k: 'c', v: 0 },
  ];
  expect(saidOf(now, map, old)).toEqual(['FieldValueInvalid spec.x[1].v: Invalid value: 4: shrinks']);
  expect(saidOf(now, { type: 'array', items }, old)).toEqual([]);
});

test('rules are skipped, with a cause, if the object does not have the shape that they need', () => {
  const schema = object({ a: ruled(INTEGER, 'self > 5') });
  const cause = { reason: 'FieldValueRequired', field: 'b', message: 'Required value' };
  expect(rulesSkipped(schema, [cause])).toEqual({
    reason: 'FieldValueInvalid',
    field: '<nil>',
    message:
      'Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation',
  });
  expect(rulesSkipped(schema, [{ ...cause, reason: 'FieldValueInvalid' }])).toBeUndefined();
  expect(rulesSkipped(object({ a: INTEGER }), [cause])).toBeUndefined();
});

test.each([
  ['set', 'self.x == self.y'],
  ['set', "self.x + ['b', 'c'] == ['c', 'b', 'a']"],
  ['set', "(self.x + ['b', 'c']).size() == 3"],
  ['atomic', "(self.x + ['b', 'c']).size() == 4"],
] as const)('a list of type %s: %s holds', (type, rule) => {
  const list: Schema = { type: 'array', items: STRING, 'x-kubernetes-list-type': type };
  const value = { x: ['a', 'b'], y: ['b', 'a'] };
  expect(saidOf(value, ruled(object({ x: list, y: list }), rule))).toEqual([]);
});

test.each([
  ['self.x == self.y', true],
  ["self.x + [{'k': 'a', 'v': 3}] == [{'k': 'b', 'v': 2}, {'k': 'a', 'v': 3}]", true],
  ["(self.x + self.y).map(one, one.k) == ['a', 'b']", true],
  // A stored list finds the keys of stored elements only.
  ["self.x == [{'k': 'a', 'v': 1}, {'k': 'b', 'v': 2}]", false],
])('a map list: %s is %s', (rule, holds) => {
  const list: Schema = {
    type: 'array',
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['k'],
    items: object({ k: STRING, v: INTEGER }),
  };
  const [a, b] = [
    { k: 'a', v: 1 },
    { k: 'b', v: 2 },
  ];
  const value = { x: [a, b], y: [b, a] };
  // The literals have values of several types, which a dyn hides from the checker.
  const written = rule.replaceAll(/: (\d|'\w')/g, ': dyn($1)');
  expect(saidOf(value, ruled(object({ x: list, y: list }), written))).toHaveLength(holds ? 0 : 1);
});

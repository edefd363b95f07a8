import { expect, test } from 'vitest';
import { parseJson, type JsonValue } from '../../json/json.ts';
import type { Schema } from './schema.ts';
import { validateSchema } from './validate.ts';
import { INTEGER, object, STRING } from '../../../test/support/sandbox/schema.ts';

const list = (items: Schema, more: Schema = {}): Schema => ({ type: 'array', items, ...more });

const said = (value: JsonValue, schema: Schema, old?: JsonValue) =>
  validateSchema(value, schema, old).map(({ reason, field, message }) => `${reason} ${field}: ${message}`);

/** The messages for `spec.x` with this schema. */
const saidOf = (x: JsonValue, schema: Schema) =>
  said({ spec: { x } }, object({ spec: object({ x: schema }) }));

const TYPE = 'FieldValueTypeInvalid spec.x: Invalid value: ';
const NOT_IN_RANGE =
  'FieldValueInvalid <nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.x';
const INVALID = 'FieldValueInvalid spec.x: Invalid value: ';

// The answers of kube-apiserver.
test.each<[Schema, JsonValue, readonly string[]]>([
  [
    { ...STRING, maxLength: 4 },
    'abcde',
    ['FieldValueTooLong spec.x: Too long: may not be more than 4 bytes'],
  ],
  [{ ...STRING, maxLength: 1 }, '😀😀', ['FieldValueTooLong spec.x: Too long: may not be more than 1 byte']],
  [
    { ...STRING, minLength: 2, pattern: '^x' },
    'y',
    [`${INVALID}"y": spec.x in body should be at least 2 chars long`],
  ],
  [
    { type: 'number', maximum: 2.5 },
    2.75,
    [`${INVALID}2.75: spec.x in body should be less than or equal to 2.5`],
  ],
  [{ type: 'number', maximum: 2.5 }, 3, [`${INVALID}3: spec.x in body should be less than or equal to 2`]],
  [{ type: 'number', multipleOf: 0.5 }, 0.3, [`${INVALID}0.3: spec.x in body should be a multiple of 0.5`]],
  [
    { ...STRING, nullable: true, enum: ['p'] },
    null,
    ['FieldValueNotSupported spec.x: Unsupported value: null: supported values: "p"'],
  ],
  [list(STRING, { minItems: 1 }), [], [`${INVALID}0: spec.x in body should have at least 1 items`]],
  [
    { type: 'object', minProperties: 1 },
    {},
    [`${INVALID}0: spec.x in body should have at least 1 properties`],
  ],
  [
    object({ r: STRING }, { required: ['r', 'constructor'] }),
    {},
    ['FieldValueRequired spec.x.r: Required value', 'FieldValueRequired spec.x.constructor: Required value'],
  ],
  [
    { 'x-kubernetes-int-or-string': true },
    true,
    [`${TYPE}"boolean": spec.x in body must be of type integer,string: "boolean"`],
  ],
  [{ 'x-kubernetes-int-or-string': true }, '1', []],
])('%j finds in %j what the API server finds', (schema, value, expected) => {
  expect(saidOf(value, schema)).toEqual(expected);
});

test.each<[string, readonly string[], readonly string[]]>([
  ['ipv4', ['1.2.3.4', '::ffff:1.2.3.4'], ['1.2.3', '01.2.3.4']],
  ['ipv6', ['::1', '::ffff:1.2.3.4'], ['1.2.3.4', 'fe80::1%eth0']],
  ['cidr', ['10.0.0.0/8', '::/0'], ['10.0.0.0', '10.0.0.0/33']],
  [
    'uri',
    ['http://a/b', '/abs', 'mailto:x', 'a:%zz', 'http://a/b c'],
    ['rel', '', 'http://a b', 'http://a/%zz'],
  ],
  ['hostname', ['1.2.3.com', 'abc.example'], ['-a', 'a_b', 'a.', '', 'a'.repeat(64)]],
  ['uuid', ['7c9e6679-7425-40de-944b-e07fc1f90ae7', '7C9E6679742540DE944BE07FC1F90AE7'], ['x']],
  ['byte', ['aGVsbG8='], ['', 'a', 'aGVsbG8', '_-8=']],
  ['date', ['2026-02-28'], ['2026-02-30', '2026-2-28']],
  [
    'date-time',
    ['2026-01-01T00:00:00Z', '2026-01-01t00:00:00.123+01:00'],
    ['2026-01-01', '2026-01-01 00:00:00Z', '2026-01-01T24:00:00Z'],
  ],
  ['duration', ['1h30m', '22 ns', '3 days', '0', '-1.5h'], ['x', '1', '', '3 bananas']],
  ['k8s-thing', ['a format that the API server does not know'], []],
])('the format %s accepts the same texts as Go', (format, good, bad) => {
  const schema: Schema = { type: 'string', format };
  for (const text of good) expect(saidOf(text, schema), text).toEqual([]);
  for (const text of bad) {
    const quoted = JSON.stringify(text);
    expect(saidOf(text, schema)).toEqual([
      `${TYPE}${quoted}: spec.x in body must be of type ${format}: ${quoted}`,
    ]);
  }
});

test.each<[string, Schema, JsonValue, readonly string[]]>([
  [
    'two of oneOf',
    { oneOf: [{ required: ['a'] }, { required: ['b'] }] },
    { a: 1, b: 1 },
    [
      'FieldValueInvalid <nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives',
    ],
  ],
  [
    'the best matching branch of anyOf',
    { anyOf: [{ required: ['a'] }, { properties: { b: { minimum: 5 } }, required: ['c'] }] },
    { b: 5 },
    [
      'FieldValueInvalid <nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)',
      'FieldValueRequired spec.x.c: Required value',
    ],
  ],
  [
    'all of allOf',
    { allOf: [{ required: ['a'] }] },
    {},
    [
      'FieldValueRequired spec.x.a: Required value',
      'FieldValueInvalid <nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf). None validated',
    ],
  ],
  [
    'not',
    { not: { required: ['a'] } },
    { a: 1 },
    ['FieldValueInvalid <nil>: Invalid value: "": "spec.x" must not validate the schema (not)'],
  ],
])('%s is explained the way the API server does', (_, branches, value, expected) => {
  expect(saidOf(value, object({ a: INTEGER, b: INTEGER, c: INTEGER }, branches))).toEqual(expected);
});

test('an integer beyond 2^53 is compared as a double and printed exactly', () => {
  const value = parseJson('9007199254740993');
  expect(saidOf(value, INTEGER)).toEqual([]);
  expect(saidOf(value, { 'x-kubernetes-int-or-string': true })).toEqual([]);
  expect(saidOf(value, { ...INTEGER, maximum: 5 })).toEqual([
    `${INVALID}9007199254740993: spec.x in body should be less than or equal to 5`,
  ]);
  expect(saidOf(2n ** 64n, INTEGER)).toEqual([
    `${TYPE}"number": spec.x in body must be of type integer: "number"`,
    NOT_IN_RANGE,
  ]);
});

test('a pattern with exponential backtracking is evaluated in linear time', () => {
  expect(saidOf(`${'a'.repeat(40)}!`, { type: 'string', pattern: '^(a+)+$' })).toHaveLength(1);
});

test('on update, an existing problem is tolerated if its value is unchanged and can be correlated', () => {
  const lists: Schema = { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k'] };
  const entry = object({ k: STRING, v: { ...INTEGER, maximum: 1 } });
  const schema = object({ v: { ...INTEGER, maximum: 1 }, plain: list(entry), map: list(entry, lists) });
  const old = { v: 2, plain: [{ k: 'a', v: 2 }], map: [{ k: 'a', v: 2 }] };
  const fields = (value: JsonValue) => validateSchema(value, schema, old).map(({ field }) => field);
  expect(fields({ ...old, w: 1 })).toEqual([]);
  expect(fields({ ...old, v: 3 })).toEqual(['v']);
  expect(fields({ ...old, map: [{ k: 'b' }, { k: 'a', v: 2 }] })).toEqual([]);
  expect(fields({ ...old, map: [{ k: 'a', v: 3 }] })).toEqual(['map[0].v']);
  expect(fields({ ...old, plain: [{ k: 'b' }, { k: 'a', v: 2 }] })).toEqual(['plain[1].v']);
});

test('no text of a schema or an object becomes code, although schemas are compiled to code', () => {
  const attacks = ['"', "'", '`', '\\"', "\\'", '\u2028', '*/', '\n', '${', ')}]', '"]', "']", '.x'].map(
    (end) => `${end};globalThis.codeRan=true;//`,
  );
  for (const text of attacks) {
    const value: Schema = {
      ...STRING,
      enum: [text],
      pattern: text,
      format: text,
      default: text,
      description: text,
    };
    said({ [text]: text, x: [text] }, object({ [text]: value, x: list(value) }, { required: [text] }));
    said({ x: { [text]: 1 } }, object({ x: { type: 'object', additionalProperties: value } }));
  }
  expect(globalThis).not.toHaveProperty('codeRan');
});

import { expect, test } from 'vitest';

import { isSafeWithBigints, compileJsonSchema } from './json-schema.ts';

const BIG = 2n ** 60n;

/** Whether `schema`, as the schema of the field `a`, accepts this value. */
const accepts = (schema: object, a: unknown) =>
  compileJsonSchema({ properties: { a: schema } })({ a }).length === 0;

test.each<[object, boolean]>([
  [{}, true],
  [{ type: 'integer' }, true],
  [{ type: 'number', maximum: 2 ** 61 }, true],
  [{ type: ['integer', 'null'], multipleOf: 2 }, true],
  [{ enum: [1, 2 ** 60] }, true],
  [{ anyOf: [{ type: 'string' }, { type: 'integer', minimum: 1 }] }, true],
  [{ type: 'array', items: { type: 'integer', minimum: 1 } }, true],
  [{ minimum: 1 }, false],
  [{ not: { type: 'integer' } }, false],
  [{ oneOf: [{ type: 'integer' }, { type: 'number' }] }, false],
  [{ if: { type: 'integer' }, then: { const: 1 } }, false],
  [{ properties: { b: { items: [{ exclusiveMaximum: 1 }] } } }, false],
])('%j is safe: %s', (schema, isSafe) => {
  expect(isSafeWithBigints(schema)).toBe(isSafe);
});

test.each<[object, boolean]>([
  [{}, true],
  [{ type: 'integer' }, true],
  [{ type: 'string' }, false],
  [{ type: 'integer', maximum: 10 }, false],
  [{ maximum: 10 }, false],
  [{ minimum: 10 }, true],
  [{ enum: [2 ** 60] }, true],
  [{ enum: [1] }, false],
  [{ not: { type: 'integer' } }, false],
  [{ oneOf: [{ type: 'integer' }, { type: 'number' }] }, false],
  [{ if: { type: 'integer' }, then: { maximum: 1 } }, false],
  [{ anyOf: [{ type: 'string' }, { type: 'integer', minimum: 1 }] }, true],
])('%j accepts 2^60 without loss of precision, safe or not: %s', (schema, isAccepted) => {
  expect(accepts(schema, BIG)).toBe(isAccepted);
  expect(accepts(schema, Number(BIG))).toBe(isAccepted);
});

test('a flaw of length says what is allowed', () => {
  const check = compileJsonSchema({ properties: { a: { maxLength: 3 }, b: { minLength: 3 } } });
  expect(check({ a: 'abcd', b: '' }).map(({ field, message }) => [field, message])).toEqual([
    ['a', 'may have 3 characters at most'],
    ['b', 'must not have fewer than 3 characters'],
  ]);
});

import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { isEqual } from '../../json/json.ts';
import { applyDefaults } from './default.ts';
import { anySchema, anyValue, frozen, object } from '../../../test/support/sandbox/schema.ts';
import type { Schema } from './schema.ts';

const FIVE: Schema = { type: 'integer', default: 5 };

test.each([
  ['an absent parent is not created for the defaults below it', object({ p: object({ a: FIVE }) }), {}, {}],
  [
    'a default is completed by the defaults below it',
    object({ p: object({ a: FIVE }, { default: {} }) }),
    {},
    { p: { a: 5 } },
  ],
  [
    'a default of null does not count',
    object({ a: { type: 'string', nullable: true, default: null } }),
    {},
    {},
  ],
] as const satisfies readonly (readonly [string, Schema, unknown, unknown])[])(
  '%s',
  (_, schema, value, expected) => {
    expect(applyDefaults(value, schema)).toEqual(expected);
  },
);

test('defaulting is idempotent and does not mutate its input', () => {
  fc.assert(
    fc.property(anyValue, anySchema, (value, schema) => {
      const once = applyDefaults(frozen(value), frozen(schema));
      expect(applyDefaults(once, schema)).toBe(once);
      if (isEqual(once, value)) expect(once).toBe(value);
    }),
  );
});

import * as fc from 'fast-check';
import type { JsonValue } from '../../../src/json/json.ts';
import type { Schema } from '../../../src/machinery/schema/schema.ts';

export const STRING: Schema = { type: 'string' };
export const INTEGER: Schema = { type: 'integer' };
export const object = (properties: Record<string, Schema>, more: Schema = {}): Schema => ({
  type: 'object',
  properties,
  ...more,
});

const NAMES = ['a', 'b', 'c', 'constructor', '__proto__'];

/** Structural schemas with few property names, so that arbitrary values match about half of the time. */
export const anySchema: fc.Arbitrary<Schema> = fc.letrec<{ schema: Schema }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom<Schema>(
      { type: 'string' },
      { type: 'string', default: 'd' },
      { type: 'integer', nullable: true },
      { type: 'integer', default: 1 },
      { 'x-kubernetes-preserve-unknown-fields': true },
    ),
    fc.record({
      type: fc.constant('object' as const),
      properties: fc.dictionary(fc.constantFrom(...NAMES), tie('schema'), { maxKeys: 3 }),
      default: fc.constantFrom<JsonValue>(null, {}, { a: 'x' }),
      'x-kubernetes-preserve-unknown-fields': fc.boolean(),
      'x-kubernetes-embedded-resource': fc.boolean(),
    }),
    fc.record({
      type: fc.constant('object' as const),
      additionalProperties: fc.oneof(tie('schema'), fc.constant(true)),
    }),
    fc.record({
      type: fc.constant('array' as const),
      items: tie('schema'),
      'x-kubernetes-preserve-unknown-fields': fc.boolean(),
    }),
  ),
})).schema;

export const anyValue: fc.Arbitrary<JsonValue> = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom<JsonValue>(null, true, 1, 2n ** 60n, 'x'),
    fc.dictionary(fc.constantFrom(...NAMES), tie('value'), { maxKeys: 3 }),
    fc.array(tie('value'), { maxLength: 3 }),
  ),
})).value;

/** The same value, deeply frozen: mutating it throws. */
export function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    Object.values(value).forEach(frozen);
    Object.freeze(value);
  }
  return value;
}

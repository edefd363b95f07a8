import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { isEqual } from '../../json/json.ts';
import { prune } from './prune.ts';
import { anySchema, anyValue, frozen, object } from '../../../test/support/sandbox/schema.ts';

test('an embedded object keeps apiVersion, kind and known metadata fields', () => {
  const schema = object({ spec: object({}) }, { 'x-kubernetes-embedded-resource': true });
  const value = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'x', odd: 1 }, spec: { a: 1 }, b: 2 };
  expect(prune(value, schema)).toEqual({
    value: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'x' }, spec: {} },
    unknown: ['b', 'metadata.odd', 'spec.a'],
  });
});

test('objects below additionalProperties: true are emptied, like in the API server', () => {
  expect(
    prune({ a: 1, b: { c: 1 }, d: [{ e: 1 }, 2] }, { type: 'object', additionalProperties: true }),
  ).toEqual({
    value: { a: 1, b: {}, d: [{}, 2] },
    unknown: ['b.c', 'd[0].e'],
  });
});

test('pruning is idempotent, does not mutate its input, and reports fields exactly when it drops some', () => {
  fc.assert(
    fc.property(anyValue, anySchema, (value, schema) => {
      const once = prune(frozen(value), frozen(schema));
      expect(once.unknown.length === 0).toBe(isEqual(once.value, value));
      expect(prune(once.value, schema)).toEqual({ value: once.value, unknown: [] });
      if (once.unknown.length === 0) expect(once.value).toBe(value);
    }),
  );
});

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { anySchema, anyValue } from '../../../test/support/sandbox/schema.ts';
import { prune as pruneInSandbox } from '../../machinery/schema/prune.ts';
import { parsePath } from '../../json/field-path.ts';
import { isEqual, parseJson, stringifyJson, type JsonObject, type JsonValue } from '../../json/json.ts';
import { v2Schema } from '../../../test/support/admission/conversion.ts';
import { fits, listKeysOf, pruneObject, schemaAt } from './structural-schema.ts';

describe('pruning', () => {
  /** Without embedded resources, whose metadata has its own rules. */
  const plain = anySchema.map(
    (schema) =>
      parseJson(
        stringifyJson(schema).replaceAll('embedded-resource":true', 'embedded-resource":false'),
      ) as JsonObject,
  );

  test('drops what the sandbox drops, which matches a real API server', () => {
    fc.assert(
      fc.property(plain, anyValue, (schema, value) => {
        const root = { type: 'object' as const, properties: { spec: schema } };
        const object = { spec: value };
        expect(isEqual(pruneObject(object, root), pruneInSandbox(object, root).value)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  test('keeps the fields that every object has, and returns the object itself when nothing is dropped', () => {
    const object = { apiVersion: 'a/v1', kind: 'K', metadata: { anything: 1 }, spec: { tier: 'x' } };
    expect(pruneObject(object, v2Schema)).toBe(object);
    expect(pruneObject({ ...object, other: 1 }, v2Schema)).toEqual(object);
    expect(pruneObject({ ...object, other: 1 }, undefined)).toEqual({ ...object, other: 1 });
  });
});

test.each([
  ['spec.address.host', 'known'],
  ['spec.disks[*].class', 'known'],
  ['spec.disks[*].size', 'unknown'],
  ['spec.nothing', 'unknown'],
  ['spec.extra.any', 'open'],
  ['metadata.labels["a"]', 'open'],
])('%s is %s', (path, kind) => {
  expect(schemaAt(v2Schema, parsePath(path).segments).kind).toBe(kind);
});

test.each<[string, JsonValue, JsonObject, boolean]>([
  ['a string for a string', 'x', { type: 'string' }, true],
  ['a number for a string', 1, { type: 'string' }, false],
  ['an int64 for an integer', 9007199254740993n, { type: 'integer' }, true],
  ['a fraction for an integer', 1.5, { type: 'integer' }, false],
  ['an integer for a number', 1, { type: 'number' }, true],
  ['null', null, { type: 'string' }, false],
  ['null where it is allowed', null, { type: 'string', nullable: true }, true],
  ['a string for an int-or-string', '50%', { 'x-kubernetes-int-or-string': true }, true],
  ['a bool for an int-or-string', true, { 'x-kubernetes-int-or-string': true }, false],
  ['a number in a list of strings', ['a', 1], { type: 'array', items: { type: 'string' } }, false],
  ['a field of the wrong type', { a: 1 }, { type: 'object', properties: { a: { type: 'string' } } }, false],
  ['an unknown field', { b: 1 }, { type: 'object', properties: { a: { type: 'string' } } }, true],
  ['a map of strings', { a: 'x' }, { type: 'object', additionalProperties: { type: 'string' } }, true],
  ['anything', { anything: [null] }, { 'x-kubernetes-preserve-unknown-fields': true }, true],
])('%s: the schema check gives the expected result', (_what, value, schema, expected) => {
  expect(fits(value, { kind: 'known', schema })).toBe(expected);
});

test('keys of a list are read only from a list of type map', () => {
  const keys = { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['port', 'protocol'] };
  expect(listKeysOf({ kind: 'known', schema: { type: 'array', ...keys } })).toEqual(['port', 'protocol']);
  expect(
    listKeysOf({ kind: 'known', schema: { type: 'array', 'x-kubernetes-list-type': 'set' } }),
  ).toBeUndefined();
  expect(listKeysOf({ kind: 'open' })).toBeUndefined();
});

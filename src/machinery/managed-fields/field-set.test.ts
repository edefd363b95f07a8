import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { JsonObject } from '../../json/json.ts';
import {
  difference,
  intersection,
  pathsOf,
  readFields,
  setOfFields,
  union,
  writeFields,
  type FieldSet,
} from './field-set.ts';

const set = (fields: JsonObject) => readFields(fields);

const anySet = fc
  .array(fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 3 }), { maxLength: 8 })
  .map(setOfFields);

const members = (fields: FieldSet) => pathsOf(fields).toSorted();

describe('FieldsV1', () => {
  test('is written in the order of the API server, regardless of the input order', () => {
    const fields = {
      'f:spec': {
        'i:2': {},
        'v:"b"': {},
        'v:3': {},
        'k:{"protocol":"TCP","port":10}': { 'f:port': {}, '.': {} },
        'k:{"port":2,"protocol":"UDP"}': {},
        'f:name': {},
      },
      'f:metadata': {},
    };
    const written = JSON.stringify(writeFields(union(set(fields), setOfFields([['metadata', 'name']]))));
    expect(written).toBe(
      JSON.stringify({
        'f:metadata': { '.': {}, 'f:name': {} },
        'f:spec': {
          'f:name': {},
          'k:{"port":2,"protocol":"UDP"}': {},
          'k:{"port":10,"protocol":"TCP"}': { '.': {}, 'f:port': {} },
          'v:3': {},
          'v:"b"': {},
          'i:2': {},
        },
      }),
    );
  });

  test.each([{ name: {} }, { 'f:a': 1 }, { 'k:[1]': {} }, { 'v:x': {} }, { 'i:x': {} }])(
    '%j is invalid',
    (fields) => {
      expect(() => readFields(fields)).toThrow(Error);
    },
  );

  test('survives a round trip', () => {
    fc.assert(
      fc.property(anySet, (fields) => {
        const text = JSON.stringify(writeFields(fields));
        const copy = readFields(JSON.parse(text) as JsonObject); // written by writeFields
        expect(JSON.stringify(writeFields(copy))).toBe(text);
      }),
    );
  });
});

const pairs = fc.tuple(anySet, anySet);

test('operations on field sets give the same members as operations on sets of paths', () => {
  fc.assert(
    fc.property(pairs, ([a, b]) => {
      const inA = members(a);
      const inB = members(b);
      expect(members(union(a, b))).toEqual([...new Set([...inA, ...inB])].toSorted());
      expect(members(difference(a, b))).toEqual(inA.filter((path) => !inB.includes(path)));
      expect(members(intersection(a, b))).toEqual(inA.filter((path) => inB.includes(path)));
    }),
  );
});

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { JsonObject, JsonValue } from '../../json/json.ts';
import { ANYTHING } from '../schema/schema.ts';
import { readFields } from './field-set.ts';
import { WIDGET } from '../../../test/support/sandbox/managed-fields.ts';
import { merge, removeItems } from './merge.ts';

const SPEC = WIDGET.properties?.spec ?? ANYTHING;

describe('merging', () => {
  const cases: readonly (readonly [string, JsonValue, JsonValue, JsonValue])[] = [
    ['keeps fields that are not applied', { size: 1 }, { word: 'x' }, { size: 1, word: 'x' }],
    ['goes into maps', { notes: { a: '1', b: '1' } }, { notes: { b: '2' } }, { notes: { a: '1', b: '2' } }],
    ['replaces atomic maps', { sealed: { a: '1' } }, { sealed: { b: '1' } }, { sealed: { b: '1' } }],
    ['replaces plain lists', { steps: ['x', 'y'] }, { steps: ['z'] }, { steps: ['z'] }],
    ['merges sets', { tags: ['x', 'y'] }, { tags: ['y', 'z'] }, { tags: ['x', 'y', 'z'] }],
    ['takes the applied order', { tags: ['x', 'y', 'z'] }, { tags: ['z', 'x'] }, { tags: ['y', 'z', 'x'] }],
    [
      'keeps items that follow a shared item',
      { tags: ['x', 'a', 'y'] },
      { tags: ['x', 'y', 'b'] },
      { tags: ['x', 'a', 'y', 'b'] },
    ],
    [
      'merges items by their keys',
      {
        ports: [
          { port: 80, protocol: 'TCP', name: 'a' },
          { port: 80, protocol: 'UDP' },
        ],
      },
      { ports: [{ port: 80, name: 'b' }] },
      {
        ports: [
          { port: 80, protocol: 'TCP', name: 'b' },
          { port: 80, protocol: 'UDP' },
        ],
      },
    ],
    ['changes nothing for an empty map', { notes: { a: '1' } }, { notes: {} }, { notes: { a: '1' } }],
    ['clears a scalar with null', { word: 'x' }, { word: null }, { word: null }],
    [
      'puts a map where a scalar was',
      { free: { a: 1 } },
      { free: { a: { b: 1 } } },
      { free: { a: { b: 1 } } },
    ],
  ];

  test.each(cases)('%s', (_what, live, applied, merged) => {
    expect(merge(live, applied, SPEC)).toEqual(merged);
  });

  test('of duplicate items replaces them with the applied one', () => {
    expect(merge({ tags: ['x', 'x', 'y', 'y'] }, { tags: ['x'] }, SPEC)).toEqual({ tags: ['x', 'y', 'y'] });
  });

  const tags = fc.uniqueArray(fc.constantFrom<string[]>('a', 'b', 'c', 'd', 'e'));
  test('keeps every item of both lists once, with the applied ones in their order', () => {
    fc.assert(
      fc.property(tags, tags, (live, applied) => {
        const merged = merge(live, applied, SPEC.properties?.tags ?? ANYTHING) as readonly string[]; // of strings
        expect(merged.toSorted()).toEqual([...new Set([...live, ...applied])].toSorted());
        expect(merged.filter((tag) => applied.includes(tag))).toEqual(applied);
      }),
    );
  });

  test('returns the live value itself if it already contains the applied value', () => {
    const live = { size: 1, tags: ['x', 'y'], ports: [{ port: 1, protocol: 'TCP' }], free: { a: [1] } };
    const applied = { size: 1, tags: ['x', 'y'], ports: [{ port: 1 }], free: { a: [1] } };
    expect(merge(live, applied, SPEC)).toBe(live);
  });
});

describe('removing', () => {
  const cases: readonly (readonly [string, JsonValue, JsonObject, JsonValue])[] = [
    ['takes fields', { size: 1, word: 'x' }, { 'f:size': {} }, { word: 'x' }],
    [
      'takes keys of maps',
      { notes: { a: '1', b: '1' } },
      { 'f:notes': { 'f:a': {} } },
      { notes: { b: '1' } },
    ],
    ['takes items', { tags: ['x', 'y'] }, { 'f:tags': { 'v:"x"': {} } }, { tags: ['y'] }],
    [
      'takes fields of items',
      { ports: [{ port: 80, name: 'a' }] },
      { 'f:ports': { 'k:{"port":80,"protocol":"TCP"}': { 'f:name': {} } } },
      { ports: [{ port: 80 }] },
    ],
    [
      'leaves null in place of an emptied value',
      { notes: { a: '1' } },
      { 'f:notes': { 'f:a': {} } },
      { notes: null },
    ],
  ];

  test.each(cases)('%s', (_what, value, fields, rest) => {
    expect(removeItems(value, readFields(fields), SPEC)).toEqual(rest);
  });

  test('returns the value itself if it has none of the fields', () => {
    const value = { size: 1, tags: ['x'], notes: { a: '1' } };
    const fields = { 'f:word': {}, 'f:tags': { 'v:"y"': {} }, 'f:notes': { 'f:b': {} } };
    expect(removeItems(value, readFields(fields), SPEC)).toBe(value);
  });
});

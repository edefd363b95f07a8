import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { JsonValue } from '../../json/json.ts';
import { ANYTHING } from '../schema/schema.ts';
import { pathsOf } from './field-set.ts';
import { WIDGET } from '../../../test/support/sandbox/managed-fields.ts';
import { compare, fieldsOf, merge } from './typed.ts';

const SPEC = WIDGET.properties?.spec ?? ANYTHING;

describe('the fields of a configuration', () => {
  const cases: readonly (readonly [string, JsonValue, readonly string[]])[] = [
    ['items of a set', { tags: ['x', 'y'] }, ['.tags[="x"]', '.tags[="y"]']],
    [
      'items of a list by their keys, including a default',
      { ports: [{ port: 80, name: 'web' }] },
      [
        '.ports[port=80,protocol="TCP"]',
        '.ports[port=80,protocol="TCP"].name',
        '.ports[port=80,protocol="TCP"].port',
      ],
    ],
    ['an empty map, because it requests an empty map', { notes: {} }, ['.notes']],
    ['no field for an empty list', { tags: [] }, []],
  ];

  test.each(cases)('are %s', (_what, value, paths) => {
    expect(pathsOf(fieldsOf(value, SPEC))).toEqual(paths);
  });
});

describe('a comparison', () => {
  const cases: readonly (readonly [string, JsonValue, JsonValue, readonly string[], readonly string[]])[] = [
    [
      'names fields of items',
      { ports: [{ port: 80, name: 'a' }] },
      { ports: [{ port: 80, protocol: 'TCP', name: 'b' }] },
      ['.ports[port=80,protocol="TCP"].name', '.ports[port=80,protocol="TCP"].protocol'],
      [],
    ],
    [
      'compares items with duplicate keys as a whole',
      { tags: ['x'] },
      { tags: ['x', 'x'] },
      ['.tags[="x"]'],
      ['.tags[="x"]'],
    ],
  ];

  test.each(cases)('%s', (_what, before, after, changed, removed) => {
    const found = compare(before, after, SPEC);
    expect([pathsOf(found.changed), pathsOf(found.removed)]).toEqual([changed, removed]);
  });
});

describe('merging', () => {
  const cases: readonly (readonly [string, JsonValue, JsonValue, JsonValue])[] = [
    ['keeps fields that are not applied', { size: 1 }, { word: 'x' }, { size: 1, word: 'x' }],
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
  ];

  test.each(cases)('%s', (_what, live, applied, merged) => {
    expect(merge(live, applied, SPEC)).toEqual(merged);
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
});

import { describe, expect, test } from 'vitest';

import type { JsonValue } from '../../json/json.ts';
import { ANYTHING, type Schema } from '../schema/schema.ts';
import { pathsOf, readFields, writeFields } from './field-set.ts';
import { WIDGET } from '../../../test/support/sandbox/managed-fields.ts';
import { TypedError } from './shape.ts';
import { compare, fieldsOf, withWholeAtomics } from './typed.ts';

const SPEC = WIDGET.properties?.spec ?? ANYTHING;

describe('the fields of a configuration', () => {
  const cases: readonly (readonly [string, JsonValue, readonly string[]])[] = [
    ['named fields, through their content', { size: 1, word: 'x' }, ['.size', '.word']],
    ['every key of a map', { notes: { a: '1' } }, ['.notes.a']],
    ['an atomic map as a whole', { sealed: { a: '1' } }, ['.sealed']],
    ['a plain list as a whole', { steps: ['x'] }, ['.steps']],
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
    ['null', { word: null, notes: null }, ['.notes', '.word']],
    ['maps of unknown shape with all their content', { free: { a: { b: [1] } } }, ['.free.a', '.free.a.b']],
    ['a scalar without a type', { anyValue: '50%' }, ['.anyValue']],
  ];

  test.each(cases)('are %s', (_what, value, paths) => {
    expect(pathsOf(fieldsOf(value, SPEC))).toEqual(paths);
  });

  test('cannot be determined if an item lacks its key', () => {
    expect(() => fieldsOf({ ports: [{ name: 'web' }] }, SPEC)).toThrow(
      new TypedError(
        'element 0: associative list with keys has an element that omits key field "port" (and doesn\'t have default value)',
      ),
    );
  });
});

describe('a comparison', () => {
  const cases: readonly (readonly [string, JsonValue, JsonValue, readonly string[], readonly string[]])[] = [
    ['finds nothing in equal values', { size: 1, tags: ['x'] }, { tags: ['x'], size: 1 }, [], []],
    ['names a changed leaf', { size: 1, word: 'x' }, { size: 2, word: 'x' }, ['.size'], []],
    ['names added fields with their parents', {}, { notes: { a: '1' } }, ['.notes', '.notes.a'], []],
    ['names removed fields with their parents', { notes: { a: '1' } }, {}, [], ['.notes', '.notes.a']],
    [
      'names an added and a removed key',
      { notes: { a: '1' } },
      { notes: { b: '1' } },
      ['.notes.b'],
      ['.notes.a'],
    ],
    [
      'compares an atomic map as a whole',
      { sealed: { a: '1', b: '1' } },
      { sealed: { a: '1' } },
      ['.sealed'],
      [],
    ],
    ['compares a plain list as a whole', { steps: ['x', 'y'] }, { steps: ['y', 'x'] }, ['.steps'], []],
    ['ignores the order of a set', { tags: ['x', 'y'] }, { tags: ['y', 'x'] }, [], []],
    ['names items of a set', { tags: ['x', 'y'] }, { tags: ['y', 'z'] }, ['.tags[="z"]'], ['.tags[="x"]']],
    [
      'names fields of items',
      { ports: [{ port: 80, name: 'a' }] },
      { ports: [{ port: 80, protocol: 'TCP', name: 'b' }] },
      ['.ports[port=80,protocol="TCP"].name', '.ports[port=80,protocol="TCP"].protocol'],
      [],
    ],
    ['distinguishes an empty map from an absent one', {}, { notes: {} }, ['.notes'], []],
    ['distinguishes null from an empty map', { notes: null }, { notes: {} }, ['.notes'], []],
    [
      'compares a map with a scalar',
      { free: { a: 1 } },
      { free: { a: { b: 1 } } },
      ['.free.a', '.free.a.b'],
      [],
    ],
    [
      'compares a scalar with a map',
      { free: { a: { b: 1 } } },
      { free: { a: 1 } },
      ['.free.a'],
      ['.free.a.b'],
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

test('a manager of parts of a map that has become atomic owns the whole map', () => {
  const schema: Schema = { type: 'object', properties: { spec: SPEC } };
  const fields = readFields({ 'f:spec': { 'f:sealed': { 'f:a': {} }, 'f:notes': { 'f:b': {} } } });
  expect(writeFields(withWholeAtomics(fields, schema))).toEqual({
    'f:spec': { 'f:sealed': {}, 'f:notes': { 'f:b': {} } },
  });
});

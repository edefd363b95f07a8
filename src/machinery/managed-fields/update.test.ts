import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { JsonObject } from '../../json/json.ts';
import { toJson, withMeta, type ApiObject } from '../api-object.ts';
import { pathsOf, readFields } from './field-set.ts';
import {
  by,
  entryOf,
  FIRST,
  LATER,
  ownersOf,
  widget,
  WIDGET,
} from '../../../test/support/sandbox/managed-fields.ts';
import { trackedOnly, recordUpdate } from './update.ts';
import { compare } from './typed.ts';

const created = (object: ApiObject, manager = 'a') =>
  recordUpdate({ before: undefined, after: object, ...by(manager) });

const updated = (before: ApiObject, after: ApiObject, manager = 'b', now = LATER) =>
  recordUpdate({ before, after, ...by(manager, now) });

describe('an update', () => {
  const first = created(widget({ size: 1, word: 'x', notes: { a: '1' } }));

  test('moves changed fields to the writer and drops removed fields', () => {
    const second = updated(first, widget({ size: 2, notes: { a: '1', b: '1' } }));
    expect(ownersOf(second)).toEqual([
      ['a Update', { 'f:spec': { '.': {}, 'f:notes': { '.': {}, 'f:a': {} } } }],
      ['b Update', { 'f:spec': { 'f:notes': { 'f:b': {} }, 'f:size': {} } }],
    ]);
    expect([entryOf(second, 'a')?.time, entryOf(second, 'b')?.time]).toEqual([FIRST, LATER]);
  });
});

describe('managedFields in a request', () => {
  const live = created(widget({ size: 1 }));
  const send = (managedFields: unknown, subresource = '') =>
    recordUpdate({
      before: live,
      after: withMeta(live, {
        managedFields: managedFields as NonNullable<ApiObject['metadata']['managedFields']>,
      }),
      ...by('b', LATER),
      subresource,
    });
  const entry = {
    manager: 'c',
    operation: 'Apply',
    apiVersion: 'v1',
    fieldsType: 'FieldsV1',
    fieldsV1: { 'f:x': {} },
  };

  test('replace the managedFields of the live object', () => {
    expect(ownersOf(send([entry]))).toEqual([['c Apply', { 'f:x': {} }]]);
  });

  test.each([
    ['with an unknown operation', [{ ...entry, operation: 'Steal' }]],
    ['no field set', [{ ...entry, fieldsV1: { x: {} } }]],
  ])('are ignored if they are %s', (_what, sent) => {
    expect(ownersOf(send(sent))).toEqual(ownersOf(live));
  });
});

const anyWidget = fc
  .record(
    {
      size: fc.constantFrom(1, 2),
      notes: fc.dictionary(fc.constantFrom('a', 'b', '__proto__'), fc.constantFrom('1', '2')),
      tags: fc.uniqueArray(fc.constantFrom('x', 'y', 'z')),
      ports: fc.uniqueArray(fc.record({ port: fc.constantFrom(1, 2), name: fc.constantFrom('p', 'q') }), {
        selector: ({ port }) => port,
      }),
      free: fc.jsonValue({ maxDepth: 3 }),
    },
    { requiredKeys: [] },
  )
  .map((spec) => widget(spec as JsonObject)); // of JSON values

test('every change belongs to its writer', () => {
  fc.assert(
    fc.property(anyWidget, anyWidget, (before, after) => {
      const recorded = updated(created(before), after);
      const { changed } = compare(toJson(before), toJson(after), WIDGET);
      const pathsBy = (manager: string) => pathsOf(readFields(entryOf(recorded, manager)?.fieldsV1 ?? {}));
      expect(pathsBy('b')).toEqual(pathsOf(trackedOnly(changed)));
      expect(pathsBy('a').filter((path) => pathsBy('b').includes(path))).toEqual([]);
    }),
  );
});

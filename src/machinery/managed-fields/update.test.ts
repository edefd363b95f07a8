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
import { trackedOnly, differsOnlyInTimes, recordUpdate } from './update.ts';
import { compare } from './typed.ts';

const created = (object: ApiObject, manager = 'a') =>
  recordUpdate({ before: undefined, after: object, ...by(manager) });

const updated = (before: ApiObject, after: ApiObject, manager = 'b', now = LATER) =>
  recordUpdate({ before, after, ...by(manager, now) });

describe('a create', () => {
  test('makes the writer own all fields and their parents', () => {
    const object = created(widget({ size: 1, tags: ['x'] }, { labels: { app: 'w' } }));
    expect(object.metadata.managedFields).toEqual([
      {
        manager: 'a',
        operation: 'Update',
        apiVersion: 'example.com/v1',
        time: FIRST,
        fieldsType: 'FieldsV1',
        fieldsV1: {
          'f:metadata': { 'f:labels': { '.': {}, 'f:app': {} } },
          'f:spec': { '.': {}, 'f:size': {}, 'f:tags': { '.': {}, 'v:"x"': {} } },
        },
      },
    ]);
  });

  test('does not record fields that the API server sets', () => {
    const metadata = {
      namespace: 'n',
      uid: 'u',
      resourceVersion: '1',
      generation: 1,
      creationTimestamp: FIRST,
    };
    expect(ownersOf(created(widget(undefined, metadata)))).toEqual([]);
  });

  test('of a built-in kind leaves fields that every object has without a manager', () => {
    const object = recordUpdate({
      before: undefined,
      after: widget({ size: 1 }),
      ...by(),
      blank: { spec: {} },
    });
    expect(ownersOf(object)).toEqual([['a Update', { 'f:spec': { 'f:size': {} } }]]);
  });

  test('leaves out fields that the endpoint resets', () => {
    const object = widget({ size: 1 }, {}, { status: { phase: 'x' } });
    const recorded = recordUpdate({ before: undefined, after: object, ...by(), reset: ['status'] });
    expect(ownersOf(recorded)).toEqual([['a Update', { 'f:spec': { '.': {}, 'f:size': {} } }]]);
  });

  test('without a manager name is recorded as "unknown"', () => {
    expect(ownersOf(created(widget({ size: 1 }), ''))[0]?.[0]).toBe('unknown Update');
  });
});

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

  test('extends the existing entry of the writer and updates its time', () => {
    const second = updated(first, widget({ size: 2, word: 'x', notes: { a: '1' } }), 'a');
    expect(ownersOf(second)).toEqual(ownersOf(first));
    expect(entryOf(second, 'a')?.time).toBe(LATER);
  });

  test('without changes leaves managedFields as they are', () => {
    const after = withMeta(first, { resourceVersion: '2' });
    expect(updated(first, after)).toBe(after);
  });

  test('removes managers without fields', () => {
    const second = updated(created(widget({ size: 1 })), widget(undefined));
    expect(second.metadata.managedFields).toBeUndefined();
  });

  test('in another version or to a subresource gets its own entry', () => {
    const after = widget({ size: 2, word: 'x', notes: { a: '1' } });
    const second = recordUpdate({ before: first, after, ...by('a', LATER), apiVersion: 'example.com/v2' });
    const third = recordUpdate({
      before: second,
      after: { ...second, status: { phase: 'Ready' } },
      ...by('a', LATER),
      subresource: 'status',
    });
    expect(
      third.metadata.managedFields?.map(({ apiVersion, subresource }) => [apiVersion, subresource]),
    ).toEqual([
      ['example.com/v1', undefined],
      ['example.com/v1', 'status'],
      ['example.com/v2', undefined],
    ]);
  });

  test('does not restart managedFields that were cleared', () => {
    expect(updated(widget({ size: 1 }), widget({ size: 2 })).metadata.managedFields).toBeUndefined();
  });

  test('with duplicate keys in a list leaves the managers unchanged', () => {
    const second = updated(first, widget({ ports: [{ name: 'no port' }] }));
    expect(ownersOf(second)).toEqual(ownersOf(first));
  });

  test('never mutates its arguments', () => {
    const before = structuredClone(first);
    updated(first, widget({ size: 3 }));
    expect(first).toEqual(before);
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

  test('replace those of the live object', () => {
    expect(ownersOf(send([entry]))).toEqual([['c Apply', { 'f:x': {} }]]);
  });

  test.each([[[]], [[{}]]])('clear them if they are %j', (sent) => {
    expect(send(sent).metadata.managedFields).toBeUndefined();
  });

  test.each([
    ['absent', undefined],
    ['null', null],
    ['with an unknown operation', [{ ...entry, operation: 'Steal' }]],
    ['without a version', [{ ...entry, apiVersion: '' }]],
    ['with another fieldsType', [{ ...entry, fieldsType: 'FieldsV2' }]],
    ['no field set', [{ ...entry, fieldsV1: { x: {} } }]],
    ['no entries', ['x', {}]],
  ])('are ignored if they are %s', (_what, sent) => {
    expect(ownersOf(send(sent))).toEqual(ownersOf(live));
  });

  test('are ignored in requests to a subresource', () => {
    expect(ownersOf(send([entry], 'status'))).toEqual(ownersOf(live));
  });
});

test('the oldest updaters are merged when there are more than ten', () => {
  const names = Array.from({ length: 12 }, (_, index) => `m${String(index).padStart(2, '0')}`);
  const object = names.reduce(
    (before, name, index) => {
      const notes = Object.fromEntries(names.slice(0, index + 1).map((key) => [key, '1']));
      const now = `2026-01-01T00:00:${String(index).padStart(2, '0')}Z`;
      return updated(before, widget({ notes }, { labels: { a: 'b' } }), name, now);
    },
    created(widget(undefined, { labels: { a: 'b' } })),
  );

  expect(ownersOf(object).map(([who]) => who)).toEqual(
    ['ancient-changes', ...names.slice(3)].map((name) => `${name} Update`),
  );
  expect(Object.keys(entryOf(object, 'ancient-changes')?.fieldsV1 ?? {})).toEqual(['f:metadata', 'f:spec']);
});

describe('a write that differs only in times', () => {
  const before = created(widget({ size: 1 }));

  test('is a no-op', () => {
    const after = recordUpdate({ before: undefined, after: widget({ size: 1 }), ...by('a', LATER) });
    expect(differsOnlyInTimes(before, withMeta(after, { resourceVersion: '7' }))).toBe(true);
  });

  test.each([
    ['a value', created(widget({ size: 2 }))],
    ['a manager', created(widget({ size: 1 }), 'b')],
  ])('is a change if it also differs in %s', (_what, after) => {
    expect(differsOnlyInTimes(before, after)).toBe(false);
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

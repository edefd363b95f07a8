import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { JsonObject } from '../../json/json.ts';
import { ofJson, toJson, withMeta, type ApiObject } from '../api-object.ts';
import { ApiFailure, type Status } from '../failure.ts';
import { applyConfiguration, type Apply } from './apply.ts';
import { by, entryOf, FIRST, LATER, ownersOf, widget } from '../../../test/support/sandbox/managed-fields.ts';
import { recordUpdate } from './update.ts';

const apply = (live: ApiObject | undefined, applied: ApiObject, manager = 'a', more: Partial<Apply> = {}) =>
  applyConfiguration({ live, applied, force: false, ...by(manager), ...more }).object;

const specOf = (object: ApiObject) => toJson(object).spec;

function refusal(act: () => unknown): Status {
  try {
    act();
  } catch (error) {
    if (error instanceof ApiFailure) return error.status;
    throw error;
  }
  throw new Error('expected a failure');
}

describe('applying a missing object', () => {
  test('creates it with the fields of the configuration', () => {
    const object = apply(undefined, widget({ size: 1, notes: { a: '1' } }));
    expect(specOf(object)).toEqual({ size: 1, notes: { a: '1' } });
    expect(object.metadata.managedFields).toEqual([
      {
        manager: 'a',
        operation: 'Apply',
        apiVersion: 'example.com/v1',
        time: FIRST,
        fieldsType: 'FieldsV1',
        fieldsV1: { 'f:spec': { 'f:notes': { 'f:a': {} }, 'f:size': {} } },
      },
    ]);
  });

  test('leaves out the fields that the endpoint resets', () => {
    const applied = widget({ size: 1 }, {}, { status: { phase: 'x' } });
    const object = apply(undefined, applied, 'a', { reset: ['status'] });
    expect(toJson(object)).not.toHaveProperty('status');
    expect(ownersOf(object)).toEqual([['a Apply', { 'f:spec': { 'f:size': {} } }]]);
  });
});

describe('applying again', () => {
  const live = apply(undefined, widget({ size: 1, word: 'x', tags: ['p', 'q'], notes: { a: '1', b: '1' } }));

  test('the same configuration returns the live object itself', () => {
    const applied = widget({ notes: { b: '1', a: '1' }, tags: ['p', 'q'], word: 'x', size: 1 });
    expect(apply(live, applied, 'a', { now: LATER })).toBe(live);
  });

  test('ignores a null creation time, which some tools write', () => {
    const stamped = withMeta(live, { creationTimestamp: FIRST });
    const applied = widget(
      { size: 1, word: 'x', tags: ['p', 'q'], notes: { a: '1', b: '1' } },
      { creationTimestamp: null },
    );
    expect(apply(stamped, applied)).toBe(stamped);
  });

  test('changes values and the time', () => {
    const next = apply(
      live,
      widget({ size: 2, word: 'x', tags: ['p', 'q'], notes: { a: '1', b: '1' } }),
      'a',
      { now: LATER },
    );
    expect([specOf(next), entryOf(next, 'a')?.time]).toEqual([
      { size: 2, word: 'x', tags: ['p', 'q'], notes: { a: '1', b: '1' } },
      LATER,
    ]);
  });

  test('removes fields that the configuration no longer has', () => {
    const next = apply(live, widget({ size: 1, tags: ['q'], notes: { a: '1' } }));
    expect(specOf(next)).toEqual({ size: 1, tags: ['q'], notes: { a: '1' } });
    expect(ownersOf(next)).toEqual([
      ['a Apply', { 'f:spec': { 'f:notes': { 'f:a': {} }, 'f:size': {}, 'f:tags': { 'v:"q"': {} } } }],
    ]);
  });

  test('removes maps and lists that become empty', () => {
    expect(specOf(apply(live, widget({ size: 1 })))).toEqual({ size: 1 });
  });

  test('an empty configuration removes all fields of the manager', () => {
    const next = apply(live, widget(undefined));
    expect(toJson(next)).toEqual(toJson(widget(undefined)));
  });

  test('leaves null in place of a map that is applied empty, as the API server does', () => {
    expect(specOf(apply(live, widget({ size: 1, notes: {} })))).toEqual({ size: 1, notes: null });
  });

  test('keeps fields without a manager', () => {
    const defaulted = ofJson({
      ...toJson(live),
      spec: { size: 1, word: 'x', steps: ['default'], notes: { a: '1', b: '1' } },
    });
    expect(specOf(apply(defaulted, widget({ size: 1 })))).toEqual({ size: 1, steps: ['default'] });
  });

  test('in another version counts as the same manager', () => {
    const schema = by().schema;
    const next = apply(live, { ...widget({ size: 1 }), apiVersion: 'example.com/v2' }, 'a', {
      apiVersion: 'example.com/v2',
      schema,
    });
    expect(next.metadata.managedFields?.map(({ manager, apiVersion }) => [manager, apiVersion])).toEqual([
      ['a', 'example.com/v2'],
    ]);
    expect(specOf(next)).toEqual({ size: 1 });
  });
});

describe('several appliers', () => {
  test('share equal values, and each may drop them', () => {
    const first = apply(undefined, widget({ size: 1, word: 'x' }));
    const second = apply(first, widget({ size: 1 }), 'b', { now: LATER });
    expect(ownersOf(second)).toEqual([
      ['b Apply', { 'f:spec': { 'f:size': {} } }], // first, because it has no time
      ['a Apply', { 'f:spec': { 'f:size': {}, 'f:word': {} } }],
    ]);
    const third = apply(second, widget({ word: 'x' }));
    expect(specOf(third)).toEqual({ size: 1, word: 'x' });
    expect(specOf(apply(third, widget(undefined), 'b'))).toEqual({ word: 'x' });
  });

  test('have the time of their last change of the object', () => {
    const first = apply(undefined, widget({ size: 1, word: 'x' }));
    const second = apply(first, widget({ size: 1, word: 'x' }), 'b', { now: LATER });
    expect([entryOf(second, 'a')?.time, entryOf(second, 'b')?.time]).toEqual([FIRST, undefined]);
    const third = apply(second, widget({ size: 2, word: 'x' }), 'b', { now: LATER, force: true });
    expect(entryOf(third, 'b')?.time).toBe(LATER);
  });

  test('own their own items of one list', () => {
    const first = apply(undefined, widget({ ports: [{ port: 80, name: 'web' }], tags: ['x'] }));
    const second = apply(first, widget({ ports: [{ port: 443, name: 'tls' }], tags: ['y'] }), 'b');
    expect(specOf(second)).toEqual({
      ports: [
        { port: 80, name: 'web' },
        { port: 443, name: 'tls' },
      ],
      tags: ['x', 'y'],
    });
    expect(specOf(apply(second, widget({ tags: ['x'] })))).toEqual({
      ports: [{ port: 443, name: 'tls' }],
      tags: ['x', 'y'],
    });
  });

  test('own their own fields of one item', () => {
    const first = apply(undefined, widget({ ports: [{ port: 80, name: 'web' }] }));
    const second = apply(first, widget({ ports: [{ port: 80 }] }), 'b');
    expect(specOf(apply(second, widget({})))).toEqual({ ports: [{ port: 80 }] });
  });
});

describe('a conflict', () => {
  const live = apply(undefined, widget({ size: 1, word: 'x', ports: [{ port: 80, name: 'web' }] }));

  test('names the field and its manager', () => {
    expect(refusal(() => apply(live, widget({ size: 2 }), 'b'))).toMatchObject({
      code: 409,
      reason: 'Conflict',
      message: 'Apply failed with 1 conflict: conflict with "a": .spec.size',
      details: {
        causes: [{ reason: 'FieldManagerConflict', message: 'conflict with "a"', field: '.spec.size' }],
      },
    });
  });

  test('names every field and every manager', () => {
    const mixed = recordUpdate({
      before: live,
      after: { ...live, spec: { size: 1, word: 'y', ports: [{ port: 80, name: 'web' }] } },
      ...by('edit'),
    });
    const status = refusal(() =>
      apply(mixed, widget({ size: 2, word: 'z', ports: [{ port: 80, name: 'w' }] }), 'b'),
    );
    expect(status.message).toBe(
      'Apply failed with 3 conflicts: conflicts with "a":\n- .spec.size\n- .spec.ports[port=80,protocol="TCP"].name\n' +
        'conflicts with "edit" using example.com/v1:\n- .spec.word',
    );
    expect(status.details?.causes?.map(({ field }) => field)).toEqual([
      '.spec.size',
      '.spec.ports[port=80,protocol="TCP"].name',
      '.spec.word',
    ]);
  });

  test('names the subresource', () => {
    const ready = recordUpdate({
      before: live,
      after: { ...live, status: { phase: 'Ready' } },
      ...by('controller'),
      subresource: 'status',
    });
    expect(
      refusal(() => apply(ready, widget(undefined, {}, { status: { phase: 'Lost' } }), 'b')).message,
    ).toBe(
      'Apply failed with 1 conflict: conflict with "controller" with subresource "status" using example.com/v1: .status.phase',
    );
  });

  test('also occurs with the manager’s own updates', () => {
    const updated = recordUpdate({ before: live, after: { ...live, spec: { size: 5 } }, ...by('a') });
    expect(refusal(() => apply(updated, widget({ size: 1 }))).message).toContain(
      '"a" using example.com/v1: .spec.size',
    );
  });

  test('does not occur if the values are equal', () => {
    expect(specOf(apply(live, widget({ size: 1, notes: { a: '1' } }), 'b'))).toMatchObject({
      size: 1,
      notes: { a: '1' },
    });
  });

  test('is resolved by force, which takes over the fields', () => {
    const forced = apply(live, widget({ size: 2 }), 'b', { force: true, now: LATER });
    expect(specOf(forced)).toMatchObject({ size: 2, word: 'x' });
    expect(entryOf(forced, 'b')?.fieldsV1).toEqual({ 'f:spec': { 'f:size': {} } });
    expect(entryOf(forced, 'a')?.fieldsV1['f:spec']).not.toHaveProperty('f:size');
    expect(specOf(apply(forced, widget({ word: 'x' })))).toEqual({ size: 2, word: 'x' });
  });
});

describe('apply and update', () => {
  test('a field that an update changed stays when the applier drops it', () => {
    const first = apply(undefined, widget({ size: 1, word: 'x' }));
    const second = recordUpdate({
      before: first,
      after: { ...first, spec: { size: 2, word: 'x' } },
      ...by('b'),
    });
    expect(specOf(apply(second, widget({ word: 'x' })))).toEqual({ size: 2, word: 'x' });
  });

  test('an object without managedFields gets a manager for its existing fields', () => {
    const object = apply(widget({ size: 1, word: 'x' }, { uid: 'u' }), widget({ size: 1 }), 'b');
    expect(ownersOf(object)).toEqual([
      ['b Apply', { 'f:spec': { 'f:size': {} } }],
      ['before-first-apply Update', { 'f:spec': { '.': {}, 'f:size': {}, 'f:word': {} } }],
    ]);
    expect(refusal(() => apply(widget({ size: 1 }, { uid: 'u' }), widget({ size: 2 }))).message).toContain(
      'conflict with "before-first-apply" using example.com/v1: .spec.size',
    );
  });
});

describe('a configuration that cannot be merged', () => {
  test.each([
    ['managedFields', widget({}, { managedFields: [] }), 'metadata.managedFields must be nil'],
    [
      'another version',
      { ...widget({}), apiVersion: 'example.com/v0' },
      'Incorrect version specified in apply patch. Specified patch version: example.com/v0, expected: example.com/v1',
    ],
  ])('is a bad request for %s', (_what, applied, message) => {
    expect(refusal(() => apply(undefined, applied))).toMatchObject({
      code: 400,
      reason: 'BadRequest',
      message,
    });
  });

  const typed = 'failed to create typed patch object (/w; example.com/v1, Kind=Widget): ';
  const ports = (...items: JsonObject[]) => widget({ ports: items });
  test.each([
    ['an unknown field', widget({ what: 1 }), '.spec.what: field not declared in schema'],
    [
      'duplicate items',
      ports({ port: 1 }, { port: 1, protocol: 'TCP' }),
      '.spec.ports: duplicate entries for key [port=1,protocol="TCP"]',
    ],
    [
      'an item without its key',
      ports({ name: 'x' }),
      '.spec.ports: element 0: associative list with keys has an element that omits key field "port" (and doesn\'t have default value)',
    ],
    [
      'a string for a number',
      widget({ size: '1' }),
      '.spec.size: expected numeric (int or float), got string',
    ],
    ['a list for a map', widget({ notes: [] }), '.spec.notes: expected map, got &{[]}'],
    ['a map for a list', widget({ steps: {} }), '.spec.steps: expected list, got &{{}}'],
    [
      'several errors',
      widget({ size: true, what: 1 }),
      'errors:\n  .spec.size: expected numeric (int or float), got bool\n  .spec.what: field not declared in schema',
    ],
  ])('is a merge error for %s', (_what, applied, message) => {
    expect(refusal(() => apply(undefined, applied))).toMatchObject({ code: 500, message: typed + message });
  });

  test('may have unknown fields where the schema preserves them', () => {
    expect(specOf(apply(undefined, widget({ free: { a: { b: [1, null] } } })))).toEqual({
      free: { a: { b: [1, null] } },
    });
  });
});

const anyWidget = fc
  .record(
    {
      size: fc.constantFrom(1, 2),
      notes: fc.dictionary(fc.constantFrom('a', 'b', '__proto__'), fc.constantFrom('1', '2'), { minKeys: 1 }),
      sealed: fc.dictionary(fc.constantFrom('a', 'b'), fc.constantFrom('1', '2')),
      tags: fc.uniqueArray(fc.constantFrom('x', 'y', 'z'), { minLength: 1 }),
      ports: fc.uniqueArray(fc.record({ port: fc.constantFrom(1, 2), name: fc.constantFrom('p', 'q') }), {
        selector: ({ port }) => port,
        minLength: 1,
      }),
    },
    { requiredKeys: ['size'] },
  )
  .map((spec) => widget(spec));

describe('any configuration', () => {
  test('applied twice equals applied once', () => {
    fc.assert(
      fc.property(anyWidget, anyWidget, anyWidget, (first, other, second) => {
        const before = apply(apply(undefined, first), other, 'b', { force: true });
        const once = apply(before, second, 'a', { force: true, now: LATER });
        expect(apply(once, second, 'a', { now: '2027-01-01T00:00:00Z' })).toBe(once);
      }),
    );
  });

  test('from a single manager defines the whole object', () => {
    fc.assert(
      fc.property(anyWidget, anyWidget, (first, second) => {
        const object = apply(apply(undefined, first), second);
        expect(withMeta(object, { managedFields: undefined })).toEqual(second);
      }),
    );
  });

  test('is not mutated', () => {
    fc.assert(
      fc.property(anyWidget, anyWidget, (first, second) => {
        const live = apply(undefined, first);
        const copies = structuredClone([live, second]);
        apply(live, second, 'b', { force: true });
        expect([live, second]).toEqual(copies);
      }),
    );
  });
});

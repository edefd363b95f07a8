import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { JsonObject } from '../../json/json.ts';
import type { ApiObject } from '../api-object.ts';
import { applyConfiguration, type Apply } from './apply.ts';
import { by, LATER, ownersOf, widget } from '../../../test/support/sandbox/managed-fields.ts';
import { recordUpdate } from './update.ts';
import { statusOf } from '../../../test/support/sandbox/failures.ts';

const apply = (live: ApiObject | undefined, applied: ApiObject, manager = 'a', more: Partial<Apply> = {}) =>
  applyConfiguration({ live, applied, force: false, ...by(manager), ...more }).object;

describe('a conflict', () => {
  const live = apply(undefined, widget({ size: 1, word: 'x', ports: [{ port: 80, name: 'web' }] }));

  test('names every field and every manager', () => {
    const mixed = recordUpdate({
      before: live,
      after: { ...live, spec: { size: 1, word: 'y', ports: [{ port: 80, name: 'web' }] } },
      ...by('edit'),
    });
    const status = statusOf(() =>
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

  test('also occurs with the manager’s own updates', () => {
    const updated = recordUpdate({ before: live, after: { ...live, spec: { size: 5 } }, ...by('a') });
    expect(statusOf(() => apply(updated, widget({ size: 1 }))).message).toContain(
      '"a" using example.com/v1: .spec.size',
    );
  });
});

test('an object without managedFields gets a manager for its existing fields', () => {
  const object = apply(widget({ size: 1, word: 'x' }, { uid: 'u' }), widget({ size: 1 }), 'b');
  expect(ownersOf(object)).toEqual([
    ['b Apply', { 'f:spec': { 'f:size': {} } }],
    ['before-first-apply Update', { 'f:spec': { '.': {}, 'f:size': {}, 'f:word': {} } }],
  ]);
  expect(statusOf(() => apply(widget({ size: 1 }, { uid: 'u' }), widget({ size: 2 }))).message).toContain(
    'conflict with "before-first-apply" using example.com/v1: .spec.size',
  );
});

describe('a configuration that cannot be merged', () => {
  test('is a bad request for another version', () => {
    const applied = { ...widget({}), apiVersion: 'example.com/v0' };
    const message =
      'Incorrect version specified in apply patch. Specified patch version: example.com/v0, expected: example.com/v1';
    expect(statusOf(() => apply(undefined, applied))).toMatchObject({
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
  ])('is a merge error for %s', (_what, applied, message) => {
    expect(statusOf(() => apply(undefined, applied))).toMatchObject({ code: 500, message: typed + message });
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

test('any configuration applied twice equals the same applied once', () => {
  fc.assert(
    fc.property(anyWidget, anyWidget, anyWidget, (first, other, second) => {
      const before = apply(apply(undefined, first), other, 'b', { force: true });
      const once = apply(before, second, 'a', { force: true, now: LATER });
      expect(apply(once, second, 'a', { now: '2027-01-01T00:00:00Z' })).toBe(once);
    }),
  );
});

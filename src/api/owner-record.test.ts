import { describe, expect, test } from 'vitest';

import {
  encodeOwnerRecord,
  isRecordOf,
  missingOwners,
  ownerKey,
  parseOwnerRecord,
  toOwnerReferences,
} from './owner-record.ts';

const owner = { apiVersion: 'infra.example.com/v1', kind: 'Rack', name: 'r1', uid: 'u1' };

test('a record is read as it was written, flags and all', () => {
  const record = { self: 'a', refs: [{ ...owner, controller: true, blockOwnerDeletion: false }, owner] };
  expect(parseOwnerRecord(encodeOwnerRecord(record))).toEqual(record);
});

test('the same record is the same text, in whatever order its fields came', () => {
  const shuffled = { uid: 'u1', name: 'r1', kind: 'Rack', apiVersion: 'infra.example.com/v1', more: 1 };
  expect(encodeOwnerRecord({ self: 'a', refs: [shuffled] })).toBe(
    '{"v":1,"self":"a","refs":[{"apiVersion":"infra.example.com/v1","kind":"Rack","name":"r1","uid":"u1"}]}',
  );
});

test('more owners than an annotation should hold are not kept, nor read', () => {
  const refs = Array.from({ length: 500 }, (_, n) => ({ ...owner, uid: `uid-${n}` }));
  expect(encodeOwnerRecord({ self: 'a', refs })).toBeUndefined();
  expect(parseOwnerRecord(JSON.stringify({ v: 1, self: 'a', refs }))).toBeUndefined();
});

describe('what is no record is none, whatever it is', () => {
  const record = (refs: unknown, rest: object = {}) => JSON.stringify({ v: 1, self: 'a', refs, ...rest });
  test.each([
    ['nothing', undefined],
    ['a number', 7],
    ['no JSON', '{"v":1'],
    ['a list', '[]'],
    ['null', 'null'],
    ['another version', record([owner], { v: 2 })],
    ['no name', record([owner], { self: 7 })],
    ['no list', record({})],
    ['no owner', record([])],
    ['an owner that is none', record([owner, null])],
    ['an owner without a uid', record([{ ...owner, uid: '' }])],
    ['an owner with an endless name', record([{ ...owner, name: 'x'.repeat(600) }])],
    ['a flag that is a text', record([{ ...owner, controller: 'true' }])],
    ['a name in the prototype', '{"v":1,"self":"a","refs":[{"__proto__":{"uid":"u1"}}]}'],
  ])('%s', (_what, text) => {
    expect(parseOwnerRecord(text)).toBeUndefined();
  });
});

test('a record is for one name, or for those that the API server makes of a beginning', () => {
  expect(isRecordOf({ self: 'a', refs: [] }, 'a')).toBe(true);
  expect(isRecordOf({ self: 'a', refs: [] }, 'ab')).toBe(false);
  expect(isRecordOf({ self: 'web-*', refs: [] }, 'web-x7')).toBe(true);
  expect(isRecordOf({ self: 'web-*', refs: [] }, 'db')).toBe(false);
});

test('an owner is the same in every version of its kind, and under every uid', () => {
  const later = { ...owner, apiVersion: 'infra.example.com/v2', uid: 'u2' };
  expect(ownerKey(later)).toBe(ownerKey(owner));
  expect(missingOwners([owner, { ...owner, name: 'r2' }], [later])).toEqual([{ ...owner, name: 'r2' }]);
  expect(ownerKey({ ...owner, apiVersion: 'v1' })).not.toBe(ownerKey({ ...owner, apiVersion: 'v2/v1' }));
});

test('owner references that the API server would refuse are not taken for any', () => {
  expect(toOwnerReferences(undefined)).toEqual([]);
  expect(toOwnerReferences([owner])).toEqual([owner]);
  for (const wrong of ['x', {}, [1], [{ ...owner, name: 3 }]])
    expect(toOwnerReferences(wrong)).toBeUndefined();
});

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

test('a record is read as it was written, including flags', () => {
  const record = { self: 'a', refs: [{ ...owner, controller: true, blockOwnerDeletion: false }, owner] };
  expect(parseOwnerRecord(encodeOwnerRecord(record))).toEqual(record);
});

test('a record that is too long is neither written nor read', () => {
  const refs = Array.from({ length: 500 }, (_, n) => ({ ...owner, uid: `uid-${n}` }));
  expect(encodeOwnerRecord({ self: 'a', refs })).toBeUndefined();
  expect(parseOwnerRecord(JSON.stringify({ v: 1, self: 'a', refs }))).toBeUndefined();
});

describe('an invalid record is ignored', () => {
  const record = (refs: unknown, rest: object = {}) => JSON.stringify({ v: 1, self: 'a', refs, ...rest });
  test.each([
    ['nothing', undefined],
    ['a number', 7],
    ['not JSON', '{"v":1'],
    ['a list', '[]'],
    ['null', 'null'],
    ['another version', record([owner], { v: 2 })],
    ['not a name', record([owner], { self: 7 })],
    ['not a list', record({})],
    ['no owners', record([])],
    ['an owner that is not an object', record([owner, null])],
    ['an owner without a uid', record([{ ...owner, uid: '' }])],
    ['an owner with a name that is too long', record([{ ...owner, name: 'x'.repeat(600) }])],
    ['a flag that is a string', record([{ ...owner, controller: 'true' }])],
    ['fields in the prototype', '{"v":1,"self":"a","refs":[{"__proto__":{"uid":"u1"}}]}'],
  ])('%s', (_what, text) => {
    expect(parseOwnerRecord(text)).toBeUndefined();
  });
});

test('a record belongs to one name, or to the names that the API server generates from a prefix', () => {
  expect(isRecordOf({ self: 'a', refs: [] }, 'a')).toBe(true);
  expect(isRecordOf({ self: 'a', refs: [] }, 'ab')).toBe(false);
  expect(isRecordOf({ self: 'web-*', refs: [] }, 'web-x7')).toBe(true);
  expect(isRecordOf({ self: 'web-*', refs: [] }, 'db')).toBe(false);
});

test('an owner is the same in every version of its kind and with every uid', () => {
  const later = { ...owner, apiVersion: 'infra.example.com/v2', uid: 'u2' };
  expect(ownerKey(later)).toBe(ownerKey(owner));
  expect(missingOwners([owner, { ...owner, name: 'r2' }], [later])).toEqual([{ ...owner, name: 'r2' }]);
  expect(ownerKey({ ...owner, apiVersion: 'v1' })).not.toBe(ownerKey({ ...owner, apiVersion: 'v2/v1' }));
});

test('owner references that the API server would reject are ignored', () => {
  expect(toOwnerReferences(undefined)).toEqual([]);
  expect(toOwnerReferences([owner])).toEqual([owner]);
  for (const wrong of ['x', {}, [1], [{ ...owner, name: 3 }]])
    expect(toOwnerReferences(wrong)).toBeUndefined();
});

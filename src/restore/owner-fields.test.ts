import { expect, test } from 'vitest';

import type { KubeObject } from '../json/kube-object.ts';
import { disownPatch, OWNERS_MANAGER } from './owner-fields.ts';

const owned = (...uids: readonly string[]) =>
  Object.fromEntries(uids.map((uid) => [`k:{"uid":"${uid}"}`, {}]));

const entry = (
  manager: string,
  owners: object | undefined,
  more: object = { 'f:spec': { 'f:tier': {} } },
) => ({
  ...{ manager, operation: 'Update', time: '2026-11-21T12:00:00Z', fieldsType: 'FieldsV1' },
  fieldsV1: { ...(owners && { 'f:metadata': { 'f:ownerReferences': { '.': {}, ...owners } } }), ...more },
});

const object = (managedFields: readonly object[], uids = ['new']): KubeObject => ({
  metadata: {
    name: 'a',
    uid: 'child',
    resourceVersion: '7',
    ownerReferences: uids.map((uid) => ({ apiVersion: 'v1', kind: 'Rack', name: 'r1', uid })),
    ...{ managedFields },
  },
});

const cleaned = (managedFields: readonly object[], uids?: string[]) =>
  disownPatch(object(managedFields, uids))?.find(({ path }) => path === '/metadata/managedFields');

test('removes owners that the object does not have, guarded by uid and resourceVersion', () => {
  expect(disownPatch(object([entry('controller', owned('old', 'new'))]))).toEqual([
    { op: 'test', path: '/metadata/uid', value: 'child' },
    { op: 'test', path: '/metadata/resourceVersion', value: '7' },
    { op: 'add', path: '/metadata/managedFields', value: [entry('controller', owned('new'))] },
  ]);
});

test('Gatehouse does not stay a manager of owners, and an entry without fields is removed', () => {
  const others = entry('controller', owned('new'));
  expect(cleaned([others, entry(OWNERS_MANAGER, owned('new'), {})])).toMatchObject({ value: [others] });
  expect(cleaned([others, entry('velero-server', owned('old'), {})])).toMatchObject({ value: [others] });
  expect(cleaned([entry(OWNERS_MANAGER, owned('new'))])).toMatchObject({
    value: [entry(OWNERS_MANAGER, undefined)],
  });
});

test('changes nothing without a stale owner, without owners, and never writes an empty list', () => {
  expect(disownPatch(object([entry('controller', owned('new')), entry('other', undefined)]))).toBeUndefined();
  expect(disownPatch(object([entry('controller', owned('old'))], []))).toBeUndefined();
  expect(disownPatch(object([entry('controller', owned('old'), {})]))).toBeUndefined();
  expect(disownPatch({ metadata: { name: 'a' } })).toBeUndefined();
});

test.each([
  ['f:ownerReferences', { 'f:metadata': { 'f:ownerReferences': 'x' } }],
  ['an element', { 'f:metadata': { 'f:ownerReferences': { 'k:{': {}, 'v:"old"': {} } } }],
  ['fieldsV1', 'x'],
])('leaves malformed %s alone', (_what, fieldsV1) => {
  expect(disownPatch(object([{ manager: 'odd', fieldsV1 }]))).toBeUndefined();
});

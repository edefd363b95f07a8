import { expect, test } from 'vitest';

import { compileSpec, policyOf } from '../../../../test/support/admission/policy.ts';
import { encodeOwnerRecord, OWNER_RECORD_ANNOTATION } from '../../../api/owner-record.ts';
import { namedUids } from './named-uids.ts';

const owner = { apiVersion: 'infra.example.com/v1', kind: 'Rack', name: 'r1', uid: 'old' };
const next = { apiVersion: 'v1', kind: 'Node', name: 'n1' };

function found(paths: readonly string[], spec: object, metadata: object = {}) {
  const annotations = { [OWNER_RECORD_ANNOTATION]: encodeOwnerRecord({ self: 'a', refs: [owner] }) ?? '' };
  const object = { metadata: { name: 'a', namespace: 'shop', annotations, ...metadata }, spec };
  const uids = namedUids([policyOf({ restore: { uids: [...paths] } })], object);
  return uids.map(({ field, ref, namespace }) => [field, ref?.kind, namespace]);
}

test.each<[string, string, object, readonly unknown[]]>([
  ['the record knows it', 'spec.by', { by: 'old' }, ['spec.by', 'Rack', 'shop']],
  ['it is an item of a list', 'spec.by[*]', { by: ['old'] }, ['spec.by[0]', 'Rack', 'shop']],
  [
    'its siblings name the object',
    'spec.ref.uid',
    { ref: { ...next, uid: 'x' } },
    ['spec.ref.uid', 'Node', 'shop'],
  ],
  [
    'it is deep in lists and maps',
    'spec.a[*].b[*].c[*].uid',
    { a: { 'x/y': { b: [{ c: [{ ...next, uid: 'x' }] }] } } },
    ['spec.a["x/y"].b[0].c[0].uid', 'Node', 'shop'],
  ],
  ['nothing names the object', 'spec.by', { by: 'x' }, ['spec.by', undefined, undefined]],
  ['the field is not called uid', 'spec.by', { ...next, by: 'x' }, ['spec.by', undefined, undefined]],
  [
    'the group is unknown',
    'spec.ref.uid',
    { ref: { ...next, apiVersion: '', uid: 'x' } },
    ['spec.ref.uid', undefined, undefined],
  ],
  [
    'the siblings name another namespace',
    'spec.ref.uid',
    { ref: { ...next, namespace: 'other', uid: 'x' } },
    ['spec.ref.uid', undefined, undefined],
  ],
  [
    'record and siblings disagree',
    'spec.ref.uid',
    { ref: { ...next, uid: 'old' } },
    ['spec.ref.uid', undefined, undefined],
  ],
])('whose uid a field holds: %s', (_case, path, spec, expected) => {
  expect(found([path], spec)).toEqual([expected]);
});

test('absent values, other values and the uids of present owners are left out', () => {
  expect(
    found(
      ['spec.by', 'spec.no.uid', 'spec.n'],
      { by: 'now', n: 3 },
      { ownerReferences: [{ ...owner, uid: 'now' }] },
    ),
  ).toEqual([]);
  expect(found(['spec.by'], { by: 'old' }, { name: 'copy' })).toEqual([['spec.by', undefined, undefined]]);
});

test('a cluster-scoped object may name any namespace', () => {
  const ref = { ...next, namespace: 'other', uid: 'x' };
  expect(found(['spec.ref.uid'], { ref }, { namespace: undefined })).toEqual([
    ['spec.ref.uid', 'Node', 'other'],
  ]);
});

test('the fields are in spec', () => {
  const result = compileSpec({ restore: { uids: ['status.uid', 'spec[', 'spec.uid'] } });
  expect(result).toMatchObject({
    problems: [{ where: 'spec.restore.uids[0]' }, { where: 'spec.restore.uids[1]' }],
  });
});

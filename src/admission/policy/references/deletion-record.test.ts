import { createHmac } from 'node:crypto';
import { expect, test } from 'vitest';

import type { UniqueClaim } from '../../../api/unique-claim.ts';
import {
  isDeletionRecord,
  newDeletionRecord,
  readDeletionRecord,
  readmitted,
  withGone,
} from './deletion-record.ts';

const NOW = Date.parse('2026-11-27T12:00:00Z');
const prove = (text: string) => createHmac('sha256', 'key').update(text).digest('base64url');
const order = {
  policy: 'servers',
  reference: 'datacenter',
  action: 'Cascade',
  target: { group: 'infra.example.com', resource: 'datacenters', namespace: undefined, name: 'fra1' },
  uid: 'dc-1',
  depth: 2,
} as const;

const isoOf = (time: number) => new Date(time).toISOString();

/** A record with a valid proof that Gatehouse never writes. */
const signedAs = (change: Partial<UniqueClaim['spec']>): UniqueClaim =>
  present(withGone({ ...stored(), spec: { ...stored().spec, ...change } }, NOW, prove));

function present(record: UniqueClaim | undefined): UniqueClaim {
  if (record === undefined) throw new Error('no record');
  return record;
}

function stored(createdAt = NOW): UniqueClaim {
  const made = present(newDeletionRecord(order, NOW, prove));
  return { ...made, metadata: { ...made.metadata, creationTimestamp: isoOf(createdAt) } };
}

/** A finished record that a user with write access to UniqueClaims creates again. */
function repeated(change: Partial<UniqueClaim['spec']>): UniqueClaim {
  const again = stored(NOW + 3_600_000);
  return { ...again, spec: { ...again.spec, ...change } };
}

test('a record is read as it was written', () => {
  expect(isDeletionRecord(stored().metadata.name ?? '')).toBe(true);
  expect(readDeletionRecord(stored(), prove)).toEqual({ ...order, admittedAt: NOW, goneAt: undefined });
});

test('it keeps when the target was gone, and the time of another deletion', () => {
  const gone = present(withGone(stored(), NOW + 5_000, prove));
  expect(readDeletionRecord(gone, prove)).toMatchObject({ goneAt: NOW + 5_000 });
  const later = present(newDeletionRecord(order, NOW + 3_600_000, prove));
  const renewed = present(readmitted(stored(), later, prove));
  expect(readDeletionRecord(renewed, prove)).toMatchObject({ admittedAt: NOW + 3_600_000 });
});

const withAnnotations = (annotations: Readonly<Record<string, string>>): UniqueClaim => ({
  ...stored(),
  metadata: { ...stored().metadata, annotations },
});

test.each<[string, UniqueClaim]>([
  [
    'names another target',
    { ...stored(), spec: { ...stored().spec, holder: { ...stored().spec.holder, name: 'fra2' } } },
  ],
  ['orders another action', { ...stored(), spec: { ...stored().spec, values: ['SetNull', '2'] } }],
  ['says another depth', { ...stored(), spec: { ...stored().spec, values: ['Cascade', '0'] } }],
  [
    'names another object of that name',
    { ...stored(), spec: { ...stored().spec, requests: [{ uid: 'dc-2', at: isoOf(NOW) }] } },
  ],
  [
    'is created again with another time',
    repeated({ requests: [{ uid: order.uid, at: isoOf(NOW + 3_600_000) }] }),
  ],
  [
    'says that the target was gone later, so that newer objects count',
    { ...stored(), spec: { ...stored().spec, values: ['Cascade', '2', isoOf(NOW + 3_600_000)] } },
  ],
  [
    'says that the deletion was admitted later',
    { ...stored(), spec: { ...stored().spec, claimedAt: isoOf(NOW + 3_600_000) } },
  ],
  ['orders an unknown action, with a valid proof', signedAs({ values: ['Restrict', '2'] })],
  ['names a rule that is no reference, with a valid proof', signedAs({ rule: 'referenced/datacenter' })],
  ['lacks a proof', withAnnotations({})],
  ['has a wrong proof', withAnnotations({ 'gatehouse.dev/proof': prove('x') })],
  ['has another name', { ...stored(), metadata: { ...stored().metadata, name: 'deleted.0' } }],
  ['comes from a backup', stored(NOW + 3_600_000)],
])('a record that %s is not trusted', (_what, claim) => {
  expect(readDeletionRecord(claim, prove)).toBeUndefined();
});

test('without the key, there is no record, and none is trusted', () => {
  expect(newDeletionRecord(order, NOW, () => undefined)).toBeUndefined();
  expect(readDeletionRecord(withAnnotations({}), () => undefined)).toBeUndefined();
});

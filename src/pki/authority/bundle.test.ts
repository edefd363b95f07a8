import { beforeAll, expect, test } from 'vitest';

import { type Authority, caBundle } from './authority.ts';
import { after, DAY } from '../durations.ts';
import { firstAuthority, prepared, rotated } from '../../../test/support/pki/fixtures.ts';
import { rootOf } from './generation.ts';
import { splitCertificates } from '../x509/pem.ts';

const now = new Date('2026-03-01T00:00:00Z');
const later = after(now, 365 * DAY);
let two: Authority;

beforeAll(async () => {
  two = await rotated(await firstAuthority(now), later);
});

const subjects = (pem: string) => splitCertificates(pem).map(({ subject }) => subject);

test('a bundle holds the roots of all generations, newest first, and no bridges', async () => {
  const three = await prepared(two, later);
  const bundle = caBundle(three, later);
  expect(subjects(bundle)).toEqual(three.generations.map((generation) => rootOf(generation).subject));
  for (const root of splitCertificates(bundle)) expect(root.verify(root.publicKey)).toBe(true);
});

test('an expired root is not in the bundle', () => {
  const [newest, oldest] = two.generations;
  if (newest === undefined || oldest === undefined) throw new Error('the authority is too short');
  const end = rootOf(oldest).validToDate;
  expect(subjects(caBundle(two, after(end, -1)))).toHaveLength(2);
  expect(subjects(caBundle(two, end))).toEqual([rootOf(newest).subject]);
});

test('a root that two generations share is published once', () => {
  expect(caBundle({ generations: [...two.generations, ...two.generations] }, later)).toBe(
    caBundle(two, later),
  );
});

test('an empty bundle is never published', () => {
  expect(() => caBundle(two, after(later, 3 * 365 * DAY))).toThrow(
    'every generation of the authority has expired',
  );
});

test('a bundle over 64 KiB is never published', async () => {
  const many = await Promise.all(Array.from({ length: 120 }, () => firstAuthority(now)));
  const generations = many.flatMap((authority) => authority.generations);
  expect(() => caBundle({ generations }, now)).toThrow('at most 65536 are published');
});

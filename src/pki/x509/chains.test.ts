import { beforeAll, expect, test } from 'vitest';

import { type Authority, caBundle } from '../authority/authority.ts';
import { isTrustedBy } from './chains.ts';
import { after, DAY } from '../durations.ts';
import { firstAuthority, rotated, serverOf } from '../../../test/support/pki/fixtures.ts';

const now = new Date('2026-03-01T00:00:00Z');
let first: Authority;
let second: Authority;
let stranger: Authority;

beforeAll(async () => {
  first = await firstAuthority(now);
  second = await rotated(first, now);
  stranger = await firstAuthority(now);
});

const bundleOf = (authority: Authority) => caBundle(authority, now);

test('a leaf is trusted only with the bundle of its CA', async () => {
  const { chain } = await serverOf(first, now);
  expect(isTrustedBy(chain, bundleOf(first), now)).toBe(true);
  expect(isTrustedBy(chain, bundleOf(stranger), now)).toBe(false);
});

test('a client with only the old root trusts a leaf of the new CA through the bridge in its chain', async () => {
  const { chain } = await serverOf(second, now);
  expect(isTrustedBy(chain, bundleOf(first), now)).toBe(true);
  const [leaf = ''] = chain.split(/(?<=END CERTIFICATE-----\n)/);
  expect(isTrustedBy(leaf, bundleOf(first), now)).toBe(false);
});

test('a leaf is trusted only while it is valid', async () => {
  const { chain } = await serverOf(first, now);
  expect(isTrustedBy(chain, bundleOf(first), after(now, 2 * DAY))).toBe(false);
  expect(isTrustedBy(chain, bundleOf(first), after(now, -30 * DAY))).toBe(false);
});

test.each(['', 'garbage', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'])(
  'text without a certificate is not trusted and trusts nothing: %j',
  async (text) => {
    const { chain } = await serverOf(first, now);
    expect(isTrustedBy(text, bundleOf(first), now)).toBe(false);
    expect(isTrustedBy(chain, text, now)).toBe(false);
  },
);

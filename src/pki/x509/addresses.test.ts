import fc from 'fast-check';
import { expect, test } from 'vitest';

import { addressBytes, addressText, canonicalAddress } from './addresses.ts';

test.each([
  ['10.0.0.1', [10, 0, 0, 1]],
  ['::', Array.from({ length: 16 }, () => 0)],
  ['fd00::7', [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]],
  ['2001:db8:1:2:3:4:5:6', [0x20, 1, 0xd, 0xb8, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6]],
])('the octets of %s are correct', (host, octets) => {
  expect([...(addressBytes(host) ?? [])]).toEqual(octets);
});

test('a DNS name has no octets', () => {
  expect(addressBytes('laptop')).toBeUndefined();
});

test.each([
  ['10.96.0.1', '10.96.0.1'],
  ['FD00:0:0::0001', 'fd00::1'],
  ['::ffff:10.0.0.1', '::ffff:a00:1'],
  ['10.96.0.010', undefined],
  ['10.96.0.256', undefined],
  ['10.96.1', undefined],
  ['', undefined],
  ['None', undefined],
  ['fd00::1]/path', undefined],
  ['1::2::3', undefined],
])('the canonical text of %s is %s', (text, canonical) => {
  expect(canonicalAddress(text)).toBe(canonical);
});

test('any octets have one canonical text, which gives the same octets', () => {
  const octets = fc
    .constantFrom(4, 16)
    .chain((length) => fc.uint8Array({ minLength: length, maxLength: length }));
  fc.assert(
    fc.property(octets, (bytes) => {
      const text = addressText(bytes);
      expect(canonicalAddress(text)).toBe(text);
      expect(addressBytes(text)).toEqual(bytes);
    }),
  );
});

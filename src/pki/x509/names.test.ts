import { expect, test } from 'vitest';
import {
  forbiddenAddress,
  isInside,
  addressBytes,
  addressText,
  canonicalAddress,
} from './certificate-fields.ts';
import fc from 'fast-check';

test.each([
  ['a.example.com', 'example.com', true],
  ['example.com', 'example.com', true],
  ['*.example.com', 'example.com', true],
  ['notexample.com', 'example.com', false],
  ['example.com.evil', 'example.com', false],
])('%s is inside %s: %s', (name, domain, inside) => {
  expect(isInside(name, domain)).toBe(inside);
});

const range = (...octets: readonly number[]) => Uint8Array.from(octets);
const EVERY_IPV4 = new Uint8Array(8);
const TEN = range(10, 96, 0, 0, 255, 240, 0, 0);
const FIRST = range(10, 96, 0, 1, 255, 255, 255, 255);

test.each([
  ['no range', undefined, [], undefined],
  ['its range', [TEN], [], undefined],
  ['another range', [range(192, 168, 0, 0, 255, 255, 0, 0)], [], '10.96.0.1'],
  ['only IPv6', [new Uint8Array(32)], [], '10.96.0.1'],
  ['its range without it', [TEN], [FIRST], '10.96.0.1'],
  ['all but every address', undefined, [EVERY_IPV4], '10.96.0.1'],
  ['all but every IPv6 address', undefined, [new Uint8Array(32)], undefined],
])(
  'a CA that may sign %s: %s, %s, forbids %s',
  (_which, permittedAddresses, excludedAddresses, forbidden) => {
    const limits = [{ permittedAddresses, excludedAddresses }];
    expect(forbiddenAddress(limits, ['10.96.0.1'])).toBe(forbidden);
  },
);

test('IPv6 ranges are compared with all octets', () => {
  const mask = [...new Array<number>(8).fill(255), ...new Array<number>(8).fill(0)];
  const net = [0xfd, 0, 0, 1, ...new Array<number>(12).fill(0)];
  const limits = [{ permittedAddresses: [range(...net, ...mask)], excludedAddresses: [] }];
  expect(forbiddenAddress(limits, ['fd00:1::7'])).toBeUndefined();
  expect(forbiddenAddress(limits, ['fd00:2::7'])).toBe('fd00:2::7');
});

test.each([
  ['10.0.0.1', [10, 0, 0, 1]],
  ['laptop', []],
  ['::', Array.from({ length: 16 }, () => 0)],
  ['fd00::7', [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]],
  ['2001:db8:1:2:3:4:5:6', [0x20, 1, 0xd, 0xb8, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6]],
])('the octets of %s are correct', (host, octets) => {
  expect([...(addressBytes(host) ?? [])]).toEqual(octets);
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

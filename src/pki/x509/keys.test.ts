import { createPrivateKey, createPublicKey } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { generateKeyPair, keyAlgorithmOf, KEY_ALGORITHMS, randomSerial, toSerial } from './keys.ts';

test.each(KEY_ALGORITHMS)('the keys of a %s pair match, and the private key is PKCS#8', async (algorithm) => {
  const { publicKey, privateKey } = await generateKeyPair(algorithm);
  expect(privateKey).toMatch(/^-----BEGIN PRIVATE KEY-----\n/);
  expect(createPublicKey(createPrivateKey(privateKey)).equals(publicKey)).toBe(true);
  expect(keyAlgorithmOf(publicKey)).toBe(algorithm);
});

test('C5: many serials are all different, positive and at most 17 octets long', () => {
  const serials = Array.from({ length: 10_000 }, randomSerial);
  for (const [first = 0x80] of serials) expect(first).toBeLessThan(0x80);
  expect(Math.max(...serials.map(({ length }) => length))).toBe(17);
  expect(new Set(serials.map((serial) => Buffer.from(serial).toString('hex'))).size).toBe(10_000);
});

const BYTES = fc.uint8Array({ minLength: 1, maxLength: 19 });
const EDGE_BYTES = fc.array(fc.constantFrom(0x00, 0x01, 0x7f, 0x80, 0xff), { minLength: 1, maxLength: 19 });

test('any bytes give a positive, minimal serial of at most 20 octets with the same value', () => {
  fc.assert(
    fc.property(fc.oneof(BYTES, EDGE_BYTES.map(Uint8Array.from.bind(Uint8Array))), (bytes) => {
      const serial = toSerial(bytes);
      const number = (octets: Uint8Array) => BigInt(`0x${Buffer.from(octets).toString('hex')}`);
      expect(number(serial)).toBe(number(bytes) === 0n ? 1n : number(bytes));
      expect(serial.length).toBeLessThanOrEqual(20);
      const [first = 0xff, second = 0xff] = serial;
      expect(first).toBeLessThan(0x80);
      if (first === 0) expect(second).toBeGreaterThanOrEqual(0x80);
    }),
  );
});

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

test('serials are unique', () => {
  const serials = Array.from({ length: 10_000 }, () => Buffer.from(randomSerial()).toString('hex'));
  expect(new Set(serials).size).toBe(serials.length);
});

test('serials hold about 128 bits', () => {
  const lengths = Array.from({ length: 200 }, () => randomSerial().length);
  expect(Math.min(...lengths)).toBeGreaterThanOrEqual(14);
  expect(Math.max(...lengths)).toBe(17);
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

test('C5: a million serials are all different, positive and no longer than 17 octets', () => {
  const seen = new Set<string>();
  for (let draw = 0; draw < 1_000_000; draw += 1) {
    const serial = randomSerial();
    if ((serial[0] ?? 0x80) >= 0x80 || serial.length > 17)
      throw new Error(`serial ${Buffer.from(serial).toString('hex')}`);
    seen.add(Buffer.from(serial).toString('latin1'));
  }
  expect(seen.size).toBe(1_000_000);
}, 300_000);

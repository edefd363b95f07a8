/** Certificates and keys in each format. Each process creates new ones, because a failure prints its whole input. */
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';

import { firstAuthority, rotated, serverOf } from '../support/pki/fixtures.ts';
import { isDeliberate } from './target.ts';
import { openKey } from '../../src/pki/authority/generation.ts';

export const NOW = new Date('2026-11-22T00:00:00Z');

export const authority = await rotated(await firstAuthority(NOW), NOW);
export const server = await serverOf(authority, NOW);
export const key = server.keyPair.privateKey;
export const bundle = authority.generations.map(({ certificate }) => certificate).join('');

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey;
const ed25519 = generateKeyPairSync('ed25519').privateKey;
const pkcs8 = { type: 'pkcs8', format: 'pem' } as const;
const guarded = { cipher: 'aes-256-cbc', passphrase: 'x' } as const;
/** A key in each supported format. The last two are encrypted, and parsing them must fail without a password. */
export const KEYS = [
  key,
  createPrivateKey(key).export({ type: 'sec1', format: 'pem' }),
  ...[rsa, p384, ed25519].map((privateKey) => privateKey.export(pkcs8)),
  rsa.export({ type: 'pkcs1', format: 'pem' }),
  rsa.export({ ...pkcs8, ...guarded }),
  rsa.export({ type: 'pkcs1', format: 'pem', ...guarded }),
].map(String);

/** A message with this number of characters of a key reveals the key. */
const TELLING = 16;
const secrets = [
  ...KEYS,
  ...authority.generations.flatMap(({ key }) => (key === undefined ? [] : openKey(key))),
].flatMap((pem) => pem.split('\n').filter((line) => line.length > 2 * TELLING && !line.startsWith('-----')));

/** Any deliberate error is allowed if its message contains no part of a key. */
export function isDiscreet(error: unknown): boolean {
  if (!(error instanceof Error) || !isDeliberate(error)) return false;
  const { message } = error;
  return !secrets.some((line) => message.includes(line.slice(0, TELLING)));
}

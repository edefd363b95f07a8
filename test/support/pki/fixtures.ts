/** For the pki tests: authorities at several stages of their life. */
import { createAuthority, type Authority } from '../../../src/pki/authority/authority.ts';
import { createGeneration, type Generation } from '../../../src/pki/authority/generation.ts';
import {
  generateKeyPair,
  randomSerial,
  type KeyAlgorithm,
  type KeyPair,
} from '../../../src/pki/x509/keys.ts';
import { issueServingCert, type ServingCert } from '../../../src/pki/serving-certs/issue.ts';

export async function firstAuthority(now: Date, algorithm: KeyAlgorithm = 'ECDSA-P256'): Promise<Authority> {
  return createAuthority({ keyPair: await generateKeyPair(algorithm), serial: randomSerial(), now });
}

/** Adds a new generation, which clients trust and which does not sign yet. */
export async function prepared(authority: Authority, now: Date): Promise<Authority> {
  const [previous] = authority.generations;
  const pending = createGeneration({
    keyPair: await generateKeyPair('ECDSA-P256'),
    serial: randomSerial(),
    now,
    previous,
  });
  return { generations: [pending, ...authority.generations] };
}

/** Activates the newest generation, and destroys the keys of the others. */
export function activated({ generations: [newest, ...older] }: Authority, now: Date): Authority {
  if (newest === undefined) throw new Error('the authority is empty');
  const retiring = older.map((generation): Generation => ({
    ...generation,
    state: 'retiring',
    key: undefined,
  }));
  return { generations: [{ ...newest, state: 'active', publishedAt: now, activatedAt: now }, ...retiring] };
}

export async function rotated(authority: Authority, now: Date): Promise<Authority> {
  return activated(await prepared(authority, now), now);
}

export interface Server extends ServingCert {
  readonly keyPair: KeyPair;
}

export const SERVER_NAME = 'db.prod.svc';

export async function serverOf(
  authority: Authority,
  now: Date,
  algorithm: KeyAlgorithm = 'ECDSA-P256',
): Promise<Server> {
  const keyPair = await generateKeyPair(algorithm);
  const order = { authority, dnsNames: [SERVER_NAME], keyPair, serial: randomSerial(), now };
  return { keyPair, ...issueServingCert({ ...order, lifetimeMs: 24 * 3600 * 1000 }) };
}

export const base64 = (text: string): string => Buffer.from(text).toString('base64');

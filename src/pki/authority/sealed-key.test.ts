import { X509Certificate } from 'node:crypto';
import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { firstAuthority } from '../../../test/support/pki/fixtures.ts';
import { DAY } from '../durations.ts';
import { issueServingCert } from '../serving-certs/issue.ts';
import { generateKeyPair, randomSerial } from '../x509/keys.ts';
import { activeGeneration, type Authority } from './authority.ts';
import { caOf } from './generation.ts';
import { openKey, signHere, type SignAs } from './sealed-key.ts';
import { parseAuthority, toSecretData } from './secret.ts';

const now = new Date();

const keyOf = (authority: Authority) => {
  const { key } = activeGeneration(authority);
  if (key === undefined) throw new Error('there is no key');
  return key;
};

test('neither JSON nor the inspection of an authority shows its key, which only its Secret holds', async () => {
  const authority = await firstAuthority(now);
  const lines = openKey(keyOf(authority)).split('\n').slice(1, -2);
  expect(lines.length).toBeGreaterThan(0);
  const shown = [JSON.stringify(authority), inspect(authority, { depth: 20, showHidden: true })];
  for (const line of lines) for (const text of shown) expect(text).not.toContain(line);
  expect(parseAuthority(toSecretData(authority))).toEqual(authority);
});

test('a signer in another process signs without the key: it receives its name, the algorithm and the bytes', async () => {
  const authority = await firstAuthority(now);
  const [active] = authority.generations;
  if (active === undefined) throw new Error('the authority is empty');
  const elsewhere = { generations: [{ ...active, key: { id: active.id } }] };
  const asked: string[] = [];
  const sign: SignAs = async (key, algorithm, bytes) => {
    asked.push(`${key.id} ${algorithm.name}`);
    return await signHere(keyOf(authority), algorithm, bytes);
  };
  const order = {
    ...{ authority: elsewhere, dnsNames: ['db.prod.svc'], keyPair: await generateKeyPair('ECDSA-P256') },
    ...{ serial: randomSerial(), now, lifetimeMs: DAY },
  };
  const { chain } = await issueServingCert({ ...order, sign });
  expect(new X509Certificate(chain).verify(caOf(active).publicKey)).toBe(true);
  expect(asked).toEqual([`${active.id} ECDSA-SHA256`]);
  await expect(issueServingCert(order)).rejects.toThrow('is not in this process');
});

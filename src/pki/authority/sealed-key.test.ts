import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { firstAuthority } from '../../../test/support/pki/fixtures.ts';
import { DAY } from '../durations.ts';
import { issueServingCert } from '../serving-certs/issue.ts';
import { generateKeyPair, randomSerial } from '../x509/keys.ts';
import { activeGeneration, type Authority } from './authority.ts';
import { openKey } from './generation.ts';
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

test('an authority whose key is not in this process cannot sign', async () => {
  const authority = await firstAuthority(now);
  const [active] = authority.generations;
  if (active === undefined) throw new Error('the authority is empty');
  const elsewhere = { generations: [{ ...active, key: { id: active.id } }] };
  const order = {
    authority: elsewhere,
    dnsNames: ['db.prod.svc'],
    keyPair: await generateKeyPair('ECDSA-P256'),
    serial: randomSerial(),
    now,
    lifetimeMs: DAY,
  };
  await expect(issueServingCert(order)).rejects.toThrow('is not in this process');
});

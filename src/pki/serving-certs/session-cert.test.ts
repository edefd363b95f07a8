import { X509Certificate } from 'node:crypto';
import { expect, test } from 'vitest';

import { DEFAULT_KEY_ALGORITHM, generateKeyPair, randomSerial } from '../x509/keys.ts';
import { issueSessionCert } from './session-cert.ts';

const now = new Date('2026-11-22T06:00:00Z');

async function issued(host: string) {
  const [authorityKeys, servingKeys] = await Promise.all([
    generateKeyPair(DEFAULT_KEY_ALGORITHM),
    generateKeyPair(DEFAULT_KEY_ALGORITHM),
  ]);
  const serials = { authority: randomSerial(), serving: randomSerial() };
  const { authority, chain, notAfter } = await issueSessionCert({
    host,
    authorityKeys,
    servingKeys,
    serials,
    now,
  });
  return { authority: new X509Certificate(authority), leaf: new X509Certificate(chain), notAfter };
}

test.each(['laptop.example.com', 'localhost', '192.168.1.7', 'fd00::7', '::1'])(
  'a certificate for %s is valid only for that host, and its authority signed it',
  async (host) => {
    const { authority, leaf, notAfter } = await issued(host);
    expect(authority.ca).toBe(true);
    expect(leaf.ca).toBe(false);
    expect(leaf.checkIssued(authority) && leaf.verify(authority.publicKey)).toBe(true);
    const check = (name: string) => (/^[\d.]+$|:/.test(name) ? leaf.checkIP(name) : leaf.checkHost(name));
    expect(check(host)).toBe(host);
    expect(check('other.example.com')).toBeUndefined();
    expect(leaf.validToDate).toEqual(notAfter);
    expect(notAfter.getTime() - now.getTime()).toBeLessThanOrEqual(7 * 86_400_000);
  },
);

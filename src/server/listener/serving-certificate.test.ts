import { createServer } from 'node:tls';
import { expect, test, vi } from 'vitest';

import { firstAuthority, serverOf } from '../../../test/support/pki/fixtures.ts';
import { secureOptions, swapCertificate, type ServingCertificate } from './serving-certificate.ts';

const now = new Date();

async function twoCertificates(): Promise<readonly [ServingCertificate, ServingCertificate]> {
  const authority = await firstAuthority(now);
  const [one, other] = await Promise.all([serverOf(authority, now), serverOf(authority, now)]);
  return [
    { chain: one.chain, key: one.keyPair.privateKey },
    { chain: other.chain, key: other.keyPair.privateKey },
  ];
}

test('a swap repeats all options of the server', async () => {
  const [certificate] = await twoCertificates();
  const setSecureContext = vi.fn();
  swapCertificate({ setSecureContext }, certificate);
  expect(setSecureContext).toHaveBeenCalledExactlyOnceWith(secureOptions(certificate));
  expect(secureOptions(certificate)).toMatchObject({
    cert: certificate.chain,
    key: certificate.key,
    minVersion: 'TLSv1.2',
  });
  expect(secureOptions(certificate)).not.toHaveProperty('ca');
  swapCertificate({ setSecureContext }, certificate, certificate.chain);
  expect(setSecureContext).toHaveBeenLastCalledWith({ ...secureOptions(certificate), ca: certificate.chain });
});

test.each<[string, (one: ServingCertificate, other: ServingCertificate) => ServingCertificate, RegExp]>([
  ['the key of another certificate', (one, other) => ({ ...one, key: other.key }), /key values mismatch/],
  ['an invalid chain', (one) => ({ ...one, chain: 'nothing' }), /PEM/],
  ['an invalid key', (one) => ({ ...one, key: 'nothing' }), /DECODER|PEM/],
])('%s throws before the server changes', async (_what, change, message) => {
  const [one, other] = await twoCertificates();
  const setSecureContext = vi.fn();
  expect(() => {
    swapCertificate({ setSecureContext }, change(one, other));
  }).toThrow(message);
  expect(setSecureContext).not.toHaveBeenCalled();
});

test('a Node server accepts the swap', async () => {
  const [one, other] = await twoCertificates();
  const server = createServer(secureOptions(one));
  expect(() => {
    swapCertificate(server, other);
  }).not.toThrow();
});

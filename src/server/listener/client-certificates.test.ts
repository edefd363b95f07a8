import { describe, expect, test } from 'vitest';

import { caBundle } from '../../pki/authority/authority.ts';
import { firstAuthority, rotated, serverOf } from '../../../test/support/pki/fixtures.ts';
import { readClientCa } from './client-certificates.ts';

const now = new Date();
const authority = await firstAuthority(now);
const root = caBundle(authority, now);
const { chain: leaf } = await serverOf(authority, now);

describe('a file of client CAs', () => {
  test('is read with all of its certificates, and other text is ignored', async () => {
    const both = caBundle(await rotated(authority, now), now);
    expect(readClientCa(both).match(/BEGIN CERTIFICATE/g)).toHaveLength(2);
    expect(readClientCa(`# ours\n${root}\n-----BEGIN PRIVATE KEY-----\nx\n`)).toBe(readClientCa(root));
  });

  test.each([
    ['no content', '', 'there is no certificate in it (PEM)'],
    ['other content', 'ca: none', 'there is no certificate in it (PEM)'],
    ['a truncated certificate', root + root.slice(0, 300), 'a certificate in it is truncated'],
    ['another label', root.replaceAll('CERTIFICATE', 'TRUSTED CERTIFICATE'), 'label is not CERTIFICATE'],
    ['an invalid certificate', root.replace(/\n[^-]*\n/, '\nAAAA\n'), 'certificate 1 in it cannot be read'],
    ['a server certificate', root + leaf, 'certificate 2 in it is not a CA certificate'],
  ])('with %s is rejected', (_what, text, why) => {
    expect(() => readClientCa(text)).toThrow(why);
  });
});

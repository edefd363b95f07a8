import { beforeAll, expect, test } from 'vitest';

import { firstAuthority, serverOf } from '../../../../test/support/pki/fixtures.ts';
import { createProblems, updateProblems } from '../../../../test/support/sandbox/built-in-objects.ts';
import { caBundle } from '../../../pki/authority/bundle.ts';

const KIND = 'certificates.k8s.io/v1 ClusterTrustBundle';
const signerName = 'example.com/ca';
const now = new Date('2026-03-01T00:00:00Z');
let root: string;
let other: string;
let leaf: string;
beforeAll(async () => {
  const authority = await firstAuthority(now);
  root = caBundle(authority, now);
  other = caBundle(await firstAuthority(now), now);
  leaf = (await serverOf(authority, now)).chain;
});

const problems = (trustBundle: string, name = 'example.com:ca:one') =>
  createProblems(KIND, { spec: { signerName, trustBundle } }, { name });
const invalid = (detail: string) => [`spec.trustBundle: Invalid value: "<value omitted>": ${detail}`];

test('CA certificates are accepted, with other text around them', () => {
  expect(problems(`# first\n${root}\n# second\n${other}`)).toEqual([]);
});

test.each([
  ['no certificate', () => 'garbage', 'at least one trust anchor must be provided'],
  ['a certificate twice', () => root + other + root, 'duplicate trust anchor (indices [0 2])'],
  ['a leaf', () => root + leaf, 'entry 1 does not have the CA bit set'],
  [
    'another block',
    () => root.replaceAll('CERTIFICATE', 'PUBLIC KEY'),
    'entry 0 has bad block type: PUBLIC KEY',
  ],
  [
    'PEM headers',
    () => root.replace('-----BEGIN CERTIFICATE-----\n', '-----BEGIN CERTIFICATE-----\na: b\n\n'),
    'entry 0 has PEM block headers',
  ],
  [
    'no X.509',
    () => '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n',
    'entry 0 does not parse as X.509',
  ],
])('a bundle with %s is refused', (_what, text, detail) => {
  expect(problems(text())).toEqual(invalid(detail));
});

test('a bundle of more than 1 MiB is refused', () => {
  expect(problems('x'.repeat(2 ** 20 + 1))).toEqual([
    'spec.trustBundle: Too long: may not be more than 1048576 bytes',
  ]);
});

test('the name begins with the signer, and has no colon without a signer', () => {
  expect(problems(root, 'other:ca:one')).toEqual([
    'metadata.name: Invalid value: "other:ca:one": ClusterTrustBundle for signerName example.com/ca must be named with prefix example.com:ca:',
  ]);
  expect(problems(root, 'example.com:ca:Upper')[0]).toContain('a lowercase RFC 1123 subdomain');
  expect(createProblems(KIND, { spec: { trustBundle: root } }, { name: 'a:b' })).toEqual([
    'metadata.name: Invalid value: "a:b": ClusterTrustBundle without signer name must not have ":" in its name',
  ]);
  expect(createProblems(KIND, { spec: { trustBundle: root } }, { name: 'plain' })).toEqual([]);
});

test('the signer cannot change', () => {
  const specOf = (signer: string) => ({ spec: { signerName: signer, trustBundle: root } });
  expect(updateProblems(KIND, specOf('a.b/c'), specOf('a.b/d'))).toEqual([
    'spec.signerName: Invalid value: "a.b/d": field is immutable',
  ]);
});

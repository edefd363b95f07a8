import { beforeAll, expect, test } from 'vitest';
import { firstAuthority } from '../../../test/support/pki/fixtures.ts';
import { caBundle } from '../authority/authority.ts';
import { splitCertificates } from '../x509/pem.ts';
import { composeBundle, distributionOf } from './distribution.ts';

const now = new Date('2026-03-01T00:00:00Z');
let root: string;
let other: string;
beforeAll(async () => {
  root = caBundle(await firstAuthority(now), now);
  other = caBundle(await firstAuthority(now), now);
});

const TO = 'gatehouse.dev/distribute-to';
const SOURCES = 'gatehouse.dev/bundle-sources';
const EXCLUDES = 'gatehouse.dev/bundle-excludes';
const of = (annotations: Readonly<Record<string, string>>, data = {}, metadata = {}) =>
  distributionOf({ metadata: { name: 'trust', annotations, ...metadata }, data });

test('a ConfigMap that is missing, not annotated or being deleted distributes nothing', () => {
  expect(distributionOf(undefined)).toEqual({ kind: 'none' });
  expect(of({ [SOURCES]: 'public' })).toEqual({ kind: 'none' });
  expect(of({ [TO]: '' }, {}, { deletionTimestamp: now.toISOString() })).toEqual({ kind: 'none' });
});

test.each([
  [undefined, { withAuthority: true, withPublic: false }],
  ['authority', { withAuthority: true, withPublic: false }],
  [' public , authority ', { withAuthority: true, withPublic: true }],
  ['public', { withAuthority: false, withPublic: true }],
  ['', { withAuthority: false, withPublic: false }],
])('the sources %j are %j', (sources, expected) => {
  const annotations = { [TO]: ' team=web ', ...(sources === undefined ? {} : { [SOURCES]: sources }) };
  expect(of(annotations, { a: root, b: other })).toMatchObject({ selector: 'team=web', ...expected });
});

test('a value that is not UTF-8 is read, or reported', () => {
  const metadata = { name: 'trust', annotations: { [TO]: '' } };
  const latin1 = Buffer.concat([Buffer.from([0xe4, 0x0a]), Buffer.from(other)]).toString('base64');
  const found = distributionOf({
    metadata,
    data: { a: root },
    binaryData: { b: latin1, 'b.jks': '/u3+7Q==' },
  });
  expect(found.kind === 'wanted' && composeBundle(found.own, now)).toBe(root + other);
  expect(distributionOf({ metadata, binaryData: { 'ca.der': 'MIIB' } })).toEqual({
    kind: 'invalid',
    message: 'there is no PEM certificate in ca.der',
  });
});

test.each<[string, Record<string, string>, () => Record<string, string>, RegExp]>([
  [
    'unknown sources',
    { [SOURCES]: 'authority,vault' },
    () => ({}),
    /is "authority,vault": write authority, public/,
  ],
  [
    'an excluded root without a fingerprint',
    { [EXCLUDES]: 'AB:CD' },
    () => ({}),
    /excludes: "AB:CD" is not a SHA-256/,
  ],
  ['a key without certificates', {}, () => ({ a: root, b: 'garbage' }), /^there is no PEM certificate in b$/],
  [
    'a truncated certificate',
    {},
    () => ({ a: root.slice(0, 99) }),
    /^a is broken: line 1: the certificate is cut off/,
  ],
])('%s are invalid as a whole: nothing is lost', (_what, annotations, data, message) => {
  expect(of({ [TO]: '', ...annotations }, data())).toEqual({
    kind: 'invalid',
    message: expect.stringMatching(message) as string,
  });
});

test('fingerprints exclude roots, with or without colons', () => {
  const [certificate] = splitCertificates(root);
  const { fingerprint256 = '' } = certificate ?? {};
  const given = `${fingerprint256.toLowerCase()}, ${fingerprint256.replaceAll(':', '')}`;
  expect(of({ [TO]: '', [EXCLUDES]: given })).toMatchObject({ excluded: [fingerprint256, fingerprint256] });
  expect(of({ [TO]: '' })).toMatchObject({ excluded: [] });
});

test('each certificate is in the bundle once, in order, and expired ones are not', () => {
  const all = splitCertificates(root + other + root);
  expect(composeBundle(all, now)).toBe(root + other);
  const late = new Date('2040-01-01T00:00:00Z');
  expect(composeBundle(all, late)).toEqual(
    new Error('the bundle would contain no certificate that is valid'),
  );
});

test('a bundle that no ConfigMap can hold is an error', () => {
  const [one] = splitCertificates(root);
  if (one === undefined) throw new Error('the fixture has a certificate');
  const many = Array.from({ length: 2_000 }, (_, index) => ({
    raw: one.raw,
    validToDate: one.validToDate,
    fingerprint256: String(index),
  })) as unknown as readonly (typeof one)[];
  expect(composeBundle(many, now)).toMatchObject({
    message: expect.stringMatching(/bytes: at most 1000000 are distributed/) as string,
  });
});

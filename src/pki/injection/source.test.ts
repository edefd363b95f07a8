import { beforeAll, expect, test } from 'vitest';
import { caBundle } from '../authority/authority.ts';
import { base64, firstAuthority, serverOf } from '../../../test/support/pki/fixtures.ts';
import {
  admitSources,
  bundleOfApiServer,
  bundleOfSource,
  toSourceObject,
  type SourceDemand,
  type SourceObject,
} from './source.ts';
import { sourceName, type SourceRef } from './request.ts';

const now = new Date('2026-03-01T00:00:00Z');
const later = new Date('2040-03-01T00:00:00Z');
const CONSENT = 'gatehouse.dev/allow-direct-injection';
const CONSENTS = { annotation: CONSENT, value: 'true' } as const;
const CONSENTING = { annotations: { [CONSENT]: 'true' } };
const ref = { kind: 'Secret', namespace: 'vault', name: 'ca' } as const;
const ofMap = { ...ref, kind: 'ConfigMap' } as const;
let ca: string;
let other: string;
beforeAll(async () => {
  ca = caBundle(await firstAuthority(now), now);
  other = caBundle(await firstAuthority(now), now);
});

const source = (data: Readonly<Record<string, string>>, consent = 'true'): SourceObject => ({
  metadata: { namespace: 'vault', name: 'ca', annotations: { [CONSENT]: consent } },
  data: Object.fromEntries(Object.entries(data).map(([key, text]) => [key, base64(text)])),
});
const bundleOf = (object: SourceObject | undefined, at = now) => bundleOfSource(ref, CONSENTS, object, at);

test('ca.crt of a consenting Secret is used, or tls.crt if ca.crt is missing', () => {
  expect(bundleOf(source({ 'ca.crt': ca, 'tls.crt': other }))).toEqual({ kind: 'bundle', pem: ca });
  expect(bundleOf(source({ 'ca.crt': '', 'tls.crt': ca }))).toEqual({ kind: 'bundle', pem: ca });
});

test('of a source with the consent annotation of cert-manager, only ca.crt is used', () => {
  const consent = { annotation: 'cert-manager.io/allow-direct-injection', value: 'true' };
  const metadata = { annotations: { [consent.annotation]: 'true' } };
  const ofCertManager = (data: Readonly<Record<string, string>>) =>
    bundleOfSource(ref, consent, { ...source(data), metadata }, now);
  expect(ofCertManager({ 'ca.crt': ca })).toEqual({ kind: 'bundle', pem: ca });
  const message = 'Secret vault/ca lacks ca.crt';
  expect(ofCertManager({ 'tls.crt': ca })).toEqual({ kind: 'unusable', message });
});

test('only the key that the target names is read and kept', () => {
  const named = { ...ofMap, key: 'root-cert.pem' } as const;
  const bundleIn = (data: Readonly<Record<string, string>>) =>
    bundleOfSource(named, CONSENTS, toSourceObject({ metadata: CONSENTING, data }, named.key), now);
  expect(bundleIn({ 'ca.crt': other, 'root-cert.pem': ca })).toEqual({ kind: 'bundle', pem: ca });
  const message = 'ConfigMap vault/ca/root-cert.pem lacks root-cert.pem';
  expect(bundleIn({ 'ca.crt': other })).toEqual({ kind: 'unusable', message });
});

test('a ConfigMap contains its certificates as text', () => {
  const map = { metadata: CONSENTING, data: { 'ca.crt': ca } };
  expect(bundleOfSource(ofMap, CONSENTS, map, now)).toEqual({ kind: 'bundle', pem: ca });
});

const WITHOUT_CONSENT =
  /^Secret vault\/ca does not exist or does not consent: its owner annotates it with gatehouse/;
test.each<[string, () => SourceObject | undefined, RegExp]>([
  ['is missing', () => undefined, WITHOUT_CONSENT],
  ['does not consent', () => ({ ...source({ 'ca.crt': ca }), metadata: {} }), WITHOUT_CONSENT],
  ['denies consent', () => source({ 'ca.crt': ca }, 'false'), /does not consent/],
  [
    'lacks certificates (Knative conversion TestReconcile: secret missing CA cert)',
    () => source({}),
    /has neither ca.crt nor tls.crt/,
  ],
  ['contains garbage', () => source({ 'ca.crt': 'garbage' }), /lacks a PEM certificate in ca.crt/],
  [
    'is truncated',
    () => source({ 'ca.crt': ca.slice(0, 200) }),
    /is broken in ca.crt: line 1: the certificate is cut off/,
  ],
  [
    'contains one good and one broken certificate',
    () => source({ 'ca.crt': ca + other.slice(0, 200) }),
    /line \d+: the certificate is cut off/,
  ],
])('nothing is injected from a source that %s', (_what, object, message) => {
  expect(bundleOf(object())).toEqual({ kind: 'unusable', message: expect.stringMatching(message) as string });
});

test('a source with more than 64 KiB of certificates is refused', async () => {
  const many = await Promise.all(Array.from({ length: 120 }, () => firstAuthority(now)));
  const text = many.map((authority) => caBundle(authority, now)).join('');
  expect(bundleOf(source({ 'ca.crt': text }))).toMatchObject({
    message: expect.stringMatching(/bytes of certificates in ca.crt: at most 65536/) as string,
  });
});

test('a leaf in tls.crt is not injected', async () => {
  const { chain } = await serverOf(await firstAuthority(now), now);
  expect(bundleOf(source({ 'tls.crt': chain }))).toMatchObject({
    message: expect.stringMatching(/its tls.crt is not a CA/) as string,
  });
});

test('cert-manager TestAppendCertificatesToBundle: removes_expired_certificates, does_not_append_expired_certificates', () => {
  expect(bundleOf(source({ 'ca.crt': ca }), later)).toMatchObject({
    message: expect.stringMatching(/only certificates that have expired/) as string,
  });
});

test('cert-manager TestAppendCertificatesToBundle: removes_duplicate_certificates', () => {
  expect(bundleOf(source({ 'ca.crt': ca + other + ca }))).toEqual({ kind: 'bundle', pem: ca + other });
});

test('a value that is not UTF-8, which a ConfigMap has in binaryData, is read', () => {
  const value = Buffer.concat([Buffer.from([0xe4, 0x0a]), Buffer.from(ca)]).toString('base64');
  const stored = toSourceObject({ metadata: CONSENTING, binaryData: { 'ca.crt': value, other: value } });
  expect(bundleOfSource(ofMap, CONSENTS, stored, now)).toEqual({ kind: 'bundle', pem: ca });
});

test('a stored source lacks the private key, and every annotation except its consent', () => {
  const kept = toSourceObject({
    metadata: { namespace: 'vault', name: 'ca', annotations: { [CONSENT]: 'true', token: 'secret' } },
    data: { 'ca.crt': 'a', 'tls.crt': 'b', 'tls.key': 'private', password: 'x' },
  });
  expect(kept).toEqual({
    metadata: { namespace: 'vault', name: 'ca', annotations: { [CONSENT]: 'true' } },
    data: { 'ca.crt': 'a', 'tls.crt': 'b' },
  });
});

test('the Secret of a Certificate counts only if it names this Certificate', () => {
  const certificate = { kind: 'Certificate', namespace: 'mail', name: 'tls' } as const;
  const consent = { annotation: 'cert-manager.io/certificate-name', value: 'tls' };
  const secretOf = (owner: string): SourceObject => ({
    metadata: { annotations: { [consent.annotation]: owner } },
    data: { 'ca.crt': base64(ca) },
  });
  expect(bundleOfSource(certificate, consent, secretOf('tls'), now)).toEqual({ kind: 'bundle', pem: ca });
  for (const secret of [secretOf('other'), secretOf('true'), undefined])
    expect(bundleOfSource(certificate, consent, secret, now)).toEqual({
      kind: 'unusable',
      message:
        'Certificate mail/tls or its Secret does not exist yet: cert-manager annotates the Secret with cert-manager.io/certificate-name: "tls"',
    });
});

test('the CA of the API server keeps only its certificates', () => {
  expect(bundleOfApiServer(`# a comment\n${ca}${ca}`, now)).toEqual({ kind: 'bundle', pem: ca });
  expect(bundleOfApiServer(undefined, now)).toMatchObject({
    message: 'the connection of Gatehouse to the API server does not specify a CA',
  });
  expect(bundleOfApiServer('garbage', now)).toMatchObject({ kind: 'unusable' });
});

const named = (name: string): SourceRef => ({ kind: 'Secret', namespace: 'vault', name });
const demand = (namespace: string | undefined, name: string): SourceDemand => ({
  namespace,
  ref: named(name),
});
const many = (count: number, namespace: string | undefined, prefix: string) =>
  Array.from({ length: count }, (_, n) => demand(namespace, `${prefix}-${String(n).padStart(4, '0')}`));
const admit = (demands: readonly SourceDemand[], watched: readonly string[] = []) => {
  const names = new Set(watched.map((name) => sourceName(named(name))));
  return [...admitSources(demands, (name) => names.has(name)).values()].map(({ name }) => name);
};

test('one namespace has ten sources, and leaves the rest to others', () => {
  const admitted = admit([...many(500, 'greedy', 'greedy'), demand('modest', 'modest')]);
  expect(admitted.filter((name) => name.startsWith('greedy'))).toHaveLength(10);
  expect(admitted).toContain('modest');
});

test('cluster-scoped targets keep their share, however many sources namespaces name', () => {
  const tenants = Array.from({ length: 300 }, (_, n) => demand(`tenant-${n}`, `tenant-${n}`));
  const admitted = admit([...tenants, ...many(200, undefined, 'webhook')]);
  expect(admitted.filter((name) => name.startsWith('webhook'))).toHaveLength(200);
  expect(admitted.filter((name) => name.startsWith('tenant'))).toHaveLength(200);
});

test('every namespace gets one source before any gets a second one, even if the second one is watched', () => {
  const first = Array.from({ length: 40 }, (_, n) => many(10, `a-${n}`, `a-${n}`)).flat();
  const before = admit(first);
  expect(before).toHaveLength(200);
  const after = admit([...first, demand('z', 'z')], before);
  expect(after).toContain('z');
  expect(before.filter((name) => !after.includes(name))).toHaveLength(1);
});

test('a watched source is not replaced by another of the same round', () => {
  const watched = Array.from({ length: 200 }, (_, n) => demand(`m-${n}`, `m-${n}`));
  const names = watched.map(({ ref: { name } }) => name);
  expect(admit([demand('a', 'a'), ...watched], names)).not.toContain('a');
});

test('a source that cluster-scoped targets name is free for namespaces', () => {
  const shared = Array.from({ length: 300 }, (_, n) => demand(`tenant-${n}`, 'shared'));
  expect(admit([...shared, demand(undefined, 'shared')])).toEqual(['shared']);
});

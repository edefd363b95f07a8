import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';

import { type Authority, type Signing, signingOf } from '../authority/authority.ts';
import { after, DAY, HOUR, MINUTE } from '../durations.ts';
import { base64, firstAuthority, rotated } from '../../../test/support/pki/fixtures.ts';
import { generateKeyPair, type KeyPair, randomSerial } from '../x509/keys.ts';
import { type CertificatePem, fingerprintsOf } from '../x509/pem.ts';
import { readServingCert, type UsableServingCert } from './facts.ts';
import { planServingCert, renewalTime, type ServingCertState } from './plan.ts';
import { issueServingCert } from './issue.ts';

const start = new Date('2026-03-01T12:00:00Z');
const day = (days: number) => after(start, days * DAY);

let authority: Authority;
let rotatedAuthority: Authority;
let keyPair: KeyPair;
let signing: Signing;
let current: UsableServingCert;
let healthy: ServingCertState;

beforeAll(async () => {
  authority = await firstAuthority(start);
  rotatedAuthority = await rotated(authority, start);
  keyPair = await generateKeyPair('ECDSA-P256');
  signing = signingOf(authority, start);
  const [{ id } = { id: '' }] = authority.generations;
  current = {
    kind: 'usable',
    purpose: 'serving',
    leaf: '',
    dnsNames: ['db', 'db.prod.svc'],
    addresses: [],
    notBefore: after(start, -30 * MINUTE),
    notAfter: day(90),
    algorithm: 'ECDSA-P256',
    signedBy: id,
    bridges: [],
    bundle: fingerprintsOf(signing.bundle),
    damaged: [],
  };
  healthy = {
    now: day(1),
    serviceUid: '7c9e6679-7425-40de-944b-e07fc1f90ae7',
    purpose: 'serving',
    dnsNames: ['db.prod.svc', 'db'],
    addresses: [],
    algorithm: 'ECDSA-P256',
    lifetimeMs: 90 * DAY,
    renewAfter: 66,
    signing,
    current,
  };
});

const plan = (change: Partial<ServingCertState> = {}) => planServingCert({ ...healthy, ...change });
const cert = (change: Partial<UsableServingCert>) => ({ current: { ...current, ...change } });

test('OPA TestCertExpiry, cert-manager TestStartRenewalWatcher: about to expire: a good cert is kept until its renewal is due', () => {
  const recheckAt = renewalTime(current, healthy);
  expect(plan()).toEqual({ kind: 'keep', recheckAt });
  expect(plan({ now: after(recheckAt, -1) })).toEqual({ kind: 'keep', recheckAt });
  expect(plan({ now: recheckAt })).toEqual({ kind: 'issue', reason: 'RenewalDue' });
});

const issueCases: readonly [string, () => Partial<ServingCertState>, string][] = [
  ['the authority rotated', () => ({ signing: signingOf(rotatedAuthority, start) }), 'SignerChanged'],
  ['no known generation signed it', () => cert({ signedBy: undefined }), 'SignerChanged'],
  [
    'the Service has a new name',
    () => ({ dnsNames: ['db', 'db.prod.svc', '*.db.prod.svc'] }),
    'DnsNamesChanged',
  ],
  ['it is for clients', () => cert({ purpose: 'client' }), 'WrongUsage'],
  ['the Service lost a name', () => ({ dnsNames: ['db'] }), 'DnsNamesChanged'],
  ['the Service lost an address', () => cert({ addresses: ['10.96.0.7'] }), 'AddressesChanged'],
  ['the Service asks for another algorithm', () => ({ algorithm: 'RSA-2048' }), 'AlgorithmChanged'],
  ['its key has an unknown algorithm', () => cert({ algorithm: undefined }), 'AlgorithmChanged'],
  [
    'it was issued by a clock far ahead',
    () => cert({ notBefore: day(30), notAfter: day(120) }),
    'NotYetValid',
  ],
  ['two thirds of its lifetime are over', () => ({ now: day(60) }), 'RenewalDue'],
  ['the Service asks for a shorter lifetime', () => ({ lifetimeMs: 30 * DAY }), 'DurationChanged'],
  ['the Service asks for a longer lifetime', () => ({ lifetimeMs: 365 * DAY }), 'DurationChanged'],
  ['it has expired', () => ({ now: day(100) }), 'RenewalDue'],
];

test.each(issueCases)('a cert is issued when %s', (_when, change, reason) => {
  expect(plan(change())).toEqual({ kind: 'issue', reason });
});

test.each<[string, () => Partial<ServingCertState>]>([
  ['lacks a bridge', () => ({ signing: { ...signing, bridges: [signing.bundle] } })],
  ['ends with a root', () => cert({ bridges: [fingerprintsOf(signing.bundle) ?? ''] })],
])('the leaf and its key stay if only the chain %s', (_what, change) => {
  expect(plan(change())).toEqual({ kind: 'rechain' });
});

test('text that some client cannot read is written again, with the same content', () => {
  const damaged = cert({ damaged: ['tls.key'], bundle: undefined });
  expect(plan(damaged)).toEqual({ kind: 'rewrite', keys: ['tls.key'] });
  expect(plan({ ...damaged, now: day(89) })).toMatchObject({ kind: 'issue' });
});

test.each([
  ['is missing from', () => undefined],
  ['is outdated in', () => fingerprintsOf(signingOf(rotatedAuthority, start).bundle)],
])('only the bundle is written if it %s the Secret', (_what, bundle) => {
  expect(plan(cert({ bundle: bundle() }))).toEqual({ kind: 'refresh-bundle' });
});

describe('a cert that its CA makes end sooner than the Service asks', () => {
  const capped = () => ({ signing: { ...signing, notAfter: after(day(90), HOUR) } });

  test.each([91, 180, 365])('stays, although a lifetime of %i days is asked for', (days) => {
    expect(plan({ ...capped(), lifetimeMs: days * DAY })).toMatchObject({ kind: 'keep' });
  });

  test('is replaced if a shorter lifetime is asked for', () => {
    expect(plan({ ...capped(), lifetimeMs: 30 * DAY })).toEqual({ kind: 'issue', reason: 'DurationChanged' });
  });
});

test('a clock that differs by minutes replaces nothing', () => {
  const notBefore = after(healthy.now, 10 * MINUTE);
  expect(plan(cert({ notBefore, notAfter: after(notBefore, 90 * DAY + 30 * MINUTE) })).kind).toBe('keep');
});

test('cert-manager TestStartRenewalWatcher: zero moment: nothing is replaced while the clock is before the start of the authority', () => {
  const now = day(-400);
  expect(plan({ now })).toEqual({ kind: 'keep', recheckAt: signing.notBefore });
});

describe('a cert that ends with its authority', () => {
  test('is not renewed, because a new one would end at the same time', () => {
    const end = after(signing.notAfter, -HOUR);
    const clamped = cert({ notBefore: after(end, -10 * DAY), notAfter: end });
    expect(plan({ ...clamped, now: after(end, -DAY) })).toEqual({ kind: 'keep', recheckAt: end });
    expect(plan({ ...clamped, now: end })).toEqual({ kind: 'issue', reason: 'RenewalDue' });
  });

  test('is checked again at later times, not in a loop', async () => {
    let now = after(signing.notAfter, -2 * HOUR);
    const steps: Date[] = [];
    let secret = await issue(now);
    while (now < after(signing.notAfter, -HOUR)) {
      const plan = planServingCert({ ...stateOf(now), current: readServingCert(secret, authority) });
      if (plan.kind === 'issue') secret = await issue(now);
      if (plan.kind === 'keep') now = plan.recheckAt;
      steps.push(now);
      if (steps.length > 20) break;
    }
    expect(steps.length).toBeLessThan(5);
  });
});

test.each([-10, 10])(
  'C1: a clock that is %i minutes off does not replace a cert that another clock has just issued',
  (minutes) => {
    const fresh = cert({ notBefore: after(start, -30 * MINUTE), notAfter: day(90) });
    expect(plan({ ...fresh, now: after(start, minutes * MINUTE) }).kind).toBe('keep');
  },
);

test('the cert is checked again when a certificate of its chain or of the bundle expires', () => {
  const validUntil = day(3);
  expect(plan({ signing: { ...signing, validUntil } })).toEqual({
    kind: 'keep',
    recheckAt: validUntil,
  });
});

test('the public side of the authority says until when it is valid', async () => {
  const later = day(365);
  const two = await rotated(authority, later);
  expect(signingOf(two, later)).toMatchObject({
    bridges: [two.generations[0]?.bridge],
    validUntil: day(730),
  });
  expect(signingOf(two, day(730))).toMatchObject({ bridges: [], validUntil: day(365 + 730) });
});

test('C2: 10,000 certs of the same minute are renewed over a tenth of their lifetime, in no hour more than twice the average', () => {
  const due = Array.from({ length: 10_000 }, (_, service) =>
    renewalTime(
      { notBefore: start, notAfter: day(90) },
      { serviceUid: `7c9e6679-7425-40de-944b-${String(service).padStart(12, '0')}`, renewAfter: 66 },
    ).getTime(),
  );
  const [first, last] = [Math.min(...due), Math.max(...due)];
  expect(last - first).toBeGreaterThan(0.099 * 90 * DAY);
  const hours = new Map<number, number>();
  for (const time of due)
    hours.set(Math.floor((time - first) / HOUR), (hours.get(Math.floor((time - first) / HOUR)) ?? 0) + 1);
  expect(Math.max(...hours.values())).toBeLessThan((2 * 10_000) / ((last - first) / HOUR));
});

describe('renewal', () => {
  const life = { notBefore: after(start, -HOUR), notAfter: day(90) };
  const percentLeft = (serviceUid: string, renewAfter: number) =>
    (day(90).getTime() - renewalTime(life, { serviceUid, renewAfter }).getTime()) / (0.9 * DAY);

  test('is always due at the same time, at most a tenth of the lifetime before the requested point', () => {
    fc.assert(
      fc.property(fc.uuid(), fc.integer({ min: 20, max: 90 }), (uid, renewAfter) => {
        const left = percentLeft(uid, renewAfter);
        expect(left).toBeGreaterThanOrEqual(100 - renewAfter - 1e-6);
        expect(left).toBeLessThanOrEqual(110 - renewAfter + 1e-6);
        expect(percentLeft(uid, renewAfter)).toBe(left);
      }),
    );
  });
});

const order = { dnsNames: ['db', 'db.prod.svc'], lifetimeMs: 90 * DAY };
const secretOf = (chain: CertificatePem, bundle: string) => ({
  'tls.crt': base64(chain),
  'tls.key': base64(keyPair.privateKey),
  'ca.crt': base64(bundle),
});
const issue = async (now: Date) => {
  const { chain } = await issueServingCert({ ...order, authority, keyPair, serial: randomSerial(), now });
  return secretOf(chain, signingOf(authority, now).bundle);
};
const stateOf = (now: Date) => ({ ...healthy, now, signing: signingOf(authority, now) });

test('a new cert is kept, for any time, lifetime and point of renewal', async () => {
  const instant = fc.date({ noInvalidDate: true, min: start, max: day(700) });
  const lifetime = fc.integer({ min: HOUR, max: 365 * DAY });
  const point = fc.integer({ min: 20, max: 90 });
  await fc.assert(
    fc.asyncProperty(instant, lifetime, point, fc.uuid(), async (now, lifetimeMs, renewAfter, serviceUid) => {
      const terms = { authority, keyPair, serial: randomSerial(), now, lifetimeMs };
      const { chain } = await issueServingCert({ ...order, ...terms });
      const { bundle } = signingOf(authority, now);
      const current = readServingCert(secretOf(chain, bundle), authority);
      const state = { ...stateOf(now), serviceUid, lifetimeMs, renewAfter, current };
      const plan = planServingCert(state);
      expect(plan.kind).toBe('keep');
      if (plan.kind === 'keep') expect(plan.recheckAt.getTime()).toBeGreaterThan(now.getTime());
    }),
    { numRuns: 40 },
  );
});

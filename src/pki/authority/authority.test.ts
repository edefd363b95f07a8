import { X509Certificate } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { activeGeneration, bridgesFrom, type Authority } from './authority.ts';
import { certificateFields } from '../x509/certificate-fields.ts';
import { DAY, after } from '../durations.ts';
import { activated, firstAuthority, prepared, rotated } from '../../../test/support/pki/fixtures.ts';
import { createGeneration, isExpired, rootOf } from './generation.ts';
import { generateKeyPair, randomSerial } from '../x509/keys.ts';

const now = new Date('2026-03-01T12:00:00Z');
/** The DER of that extension, up to the key id of 20 bytes. */
const AUTHORITY_KEY_ID = Buffer.from('0603551d23041830168014', 'hex');
let one: Authority;
let three: Authority;

beforeAll(async () => {
  one = await firstAuthority(now);
  three = await rotated(await rotated(one, after(now, DAY)), after(now, 2 * DAY));
});

test('the first generation is active immediately and lives for two years', () => {
  const [generation] = one.generations;
  expect(generation).toMatchObject({ state: 'active', createdAt: now, publishedAt: now, bridge: undefined });
  const root = rootOf(activeGeneration(one));
  expect(root.subject).toBe(`CN=gatehouse-serving-ca-${generation?.id ?? ''}`);
  expect(root.validFromDate).toEqual(new Date('2026-03-01T11:00:00Z'));
  expect(root.validToDate).toEqual(new Date('2028-02-29T12:00:00Z'));
});

test('service-ca TestCreateIntermediateCACert: a later generation is pending, and the previous one signs its bridge', async () => {
  const [next, previous] = (await prepared(one, after(now, DAY))).generations;
  if (next?.bridge === undefined || previous === undefined) throw new Error('there is no bridge');
  expect(next.state).toBe('pending');
  const bridge = new X509Certificate(next.bridge);
  expect(bridge.subject).toBe(rootOf(next).subject);
  expect(bridge.publicKey.equals(rootOf(next).publicKey)).toBe(true);
  expect(bridge.checkIssued(rootOf(previous))).toBe(true);
  expect(bridge.verify(rootOf(previous).publicKey)).toBe(true);
  expect(bridge.ca).toBe(true);
  const keyId = certificateFields(rootOf(previous)).subjectKeyId ?? new Uint8Array();
  expect(bridge.raw.includes(Buffer.concat([AUTHORITY_KEY_ID, keyId]))).toBe(true);
  expect(bridge.serialNumber).not.toBe(rootOf(previous).serialNumber); // an issuer must not use a serial twice
  expect(bridge.validToDate).toEqual(rootOf(previous).validToDate);
});

test('a bridge does not outlive the generation that it leads to', async () => {
  const next = await createGeneration({
    keyPair: await generateKeyPair('ECDSA-P256'),
    serial: randomSerial(),
    now,
    lifetimeMs: 30 * DAY,
    previous: activeGeneration(one),
  });
  if (next.bridge === undefined) throw new Error('there is no bridge');
  expect(new X509Certificate(next.bridge).validToDate).toEqual(after(now, 30 * DAY));
  expect(rootOf(next).validToDate).toEqual(after(now, 30 * DAY));
});

test('an expired generation signs no bridge, and a generation without its key cannot sign one', async () => {
  const [, retiring] = three.generations;
  const keyPair = await generateKeyPair('ECDSA-P256');
  const request = { keyPair, serial: randomSerial() };
  const late = after(now, 3 * 365 * DAY);
  expect(isExpired(activeGeneration(one), late)).toBe(true);
  const unbridged = await createGeneration({ ...request, now: late, previous: activeGeneration(one) });
  expect(unbridged.bridge).toBeUndefined();
  await expect(createGeneration({ ...request, now, previous: retiring })).rejects.toThrow(
    'its private key is gone',
  );
});

test('bridges lead down to the oldest retained generation', () => {
  const [third, second] = three.generations;
  if (third === undefined || second === undefined) throw new Error('the authority is too short');
  expect(bridgesFrom(three, third.id, now)).toEqual([third.bridge, second.bridge]);
  expect(bridgesFrom(three, second.id, now)).toEqual([second.bridge]);
  expect(bridgesFrom({ generations: [third, second] }, third.id, now)).toEqual([third.bridge]);
  expect(bridgesFrom({ generations: [third] }, third.id, now)).toEqual([]);
});

test('the chain ends before a bridge that has expired or is missing', () => {
  const [third, second, first] = three.generations;
  if (third === undefined || second === undefined || first === undefined) throw new Error('too short');
  expect(bridgesFrom(three, third.id, rootOf(first).validToDate)).toEqual([third.bridge]);
  const cut = { generations: [third, { ...second, bridge: undefined }, first] };
  expect(bridgesFrom(cut, third.id, now)).toEqual([third.bridge]);
});

test('a pending generation does not sign', async () => {
  const pending = await prepared(one, now);
  expect(activeGeneration(pending).id).toBe(activeGeneration(one).id);
  expect(bridgesFrom(pending, activeGeneration(pending).id, now)).toEqual([]);
  expect(activeGeneration(activated(pending, now)).id).toBe(pending.generations[0]?.id);
});

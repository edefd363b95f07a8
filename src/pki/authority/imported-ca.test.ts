import { beforeAll, describe, expect, test } from 'vitest';
import { firstAuthority } from '../../../test/support/pki/fixtures.ts';
import { after, DAY, HOUR } from '../durations.ts';
import { signRoot } from '../x509/certificate.ts';
import { generateKeyPair, randomSerial, type KeyPair } from '../x509/keys.ts';
import { toCertificatePem } from '../x509/pem.ts';
import { activeGeneration, authorityOf, recordTrust, type Authority } from './authority.ts';
import { MAX_BUNDLE_BYTES } from './bundle.ts';
import { generationId, importGeneration, rootOf, type ImportedAuthority } from './generation.ts';
import { planRotation, refusal, type RotationState } from './rotation-plan.ts';

const now = new Date('2026-03-01T12:00:00Z');
let keyPair: KeyPair;
let ours: ImportedAuthority;
let authority: Authority;

/** The root of the organisation for `keyPair`, from and to so many days from now. */
function rootFor(from: number, to: number, name = 'Acme Root'): ImportedAuthority {
  const [notBefore, notAfter] = [after(now, from * DAY), after(now, to * DAY)];
  const { certificate } = signRoot(name, keyPair, { serial: randomSerial(), notBefore, notAfter });
  return { id: generationId(keyPair.publicKey), certificate, key: keyPair.privateKey };
}

const stateOf = (imported: ImportedAuthority, change: Partial<RotationState> = {}): RotationState => ({
  authority,
  now,
  times: { propagationWaitMs: HOUR },
  targetsWithout: () => ({ vetoing: [], delaying: [] }),
  longestLifeMs: 90 * DAY,
  rotate: undefined,
  distrust: [],
  paused: undefined,
  imported,
  ...change,
});

beforeAll(async () => {
  keyPair = await generateKeyPair('ECDSA-P256');
  ours = rootFor(-100, 265);
  const first = authorityOf(importGeneration(ours, { serial: randomSerial(), now }), now);
  authority = recordTrust(first, [ours.id], after(now, 91 * DAY));
});

describe('a renewed certificate of an imported CA', () => {
  test('is adopted, and the same certificate changes nothing', () => {
    expect(planRotation(stateOf(rootFor(0, 365)))).toEqual({ kind: 'renew-root' });
    expect(planRotation(stateOf(ours)).kind).toBe('none');
    expect(refusal(stateOf(ours))).toBeUndefined();
  });

  test('waits until it begins: clients would reject it before', () => {
    const begins = after(now, DAY / 48);
    const early = rootFor(1 / 48, 365);
    expect(planRotation(stateOf(early))).toMatchObject({ kind: 'none', recheckAt: begins });
    expect(refusal(stateOf(early))).toContain(`begins at ${begins.toISOString()}: the current one stays`);
    expect(planRotation(stateOf(early, { now: begins }))).toEqual({ kind: 'renew-root' });
  });

  test('T9: is refused if it ends before the certs that the CA has signed', () => {
    const short = rootFor(0, 90);
    expect(planRotation(stateOf(short)).kind).toBe('none');
    expect(refusal(stateOf(short))).toContain('before the certs that the CA has signed');
    expect(planRotation(stateOf(rootFor(0, 92)))).toEqual({ kind: 'renew-root' });
  });

  test('is refused if its name is another one: no cert leads to it', () => {
    const renamed = rootFor(0, 365, 'Acme Root 2');
    expect(planRotation(stateOf(renamed)).kind).toBe('none');
    expect(refusal(stateOf(renamed))).toContain('put a CA with a new key');
  });
});

describe('the size of the bundle', () => {
  /** As many roots as the bundle can hold, of CAs that were imported before. */
  async function full(): Promise<Authority> {
    const root = rootOf(activeGeneration(await firstAuthority(now)));
    const room = Math.floor(MAX_BUNDLE_BYTES / (toCertificatePem([root]).length + 4));
    const older = Array.from({ length: room - 1 }, (_, index) => ({
      ...activeGeneration(authority),
      ...{ id: index.toString(16).padStart(8, '0'), state: 'retiring', key: undefined } as const,
      certificate: rootFor(-100, 265, `CA number ${index}`).certificate,
    }));
    return { generations: [...authority.generations, ...older] };
  }

  test('limits how many CAs are trusted, and the message says when there is room', async () => {
    const next = activeGeneration(await firstAuthority(now));
    const imported = { id: next.id, certificate: next.certificate, key: keyPair.privateKey };
    expect(planRotation(stateOf(imported))).toMatchObject({ kind: 'prepare' });
    const crowded = await full();
    const rest = { generations: crowded.generations.slice(0, -2) };
    expect(planRotation(stateOf(imported, { authority: rest }))).toMatchObject({ kind: 'prepare' });
    const state = stateOf(imported, { authority: crowded });
    expect(planRotation(state).kind).toBe('none');
    expect(refusal(state)).toMatch(/the bundle has no room for the CA .*: the next one is made after 2026-/);
    // Such a bundle could not be published, so nothing would be gained at last call either.
    const late = stateOf(imported, { authority: crowded, now: after(now, 250 * DAY), longestLifeMs: HOUR });
    expect(planRotation(late).kind).not.toBe('prepare');
  });
});

/** For the pki tests: authorities at several stages of their life. */
import {
  activate,
  activeGeneration,
  authorityOf,
  createAuthority,
  prepare,
  recordTrust,
  type Authority,
} from '../../../src/pki/authority/authority.ts';
import { after, DAY, MINUTE } from '../../../src/pki/durations.ts';
import {
  createGeneration,
  type ImportedAuthority,
  importGeneration,
} from '../../../src/pki/authority/generation.ts';
import { importAuthority } from '../../../src/pki/authority/imported-ca.ts';
import {
  generateKeyPair,
  randomSerial,
  type KeyAlgorithm,
  type KeyPair,
} from '../../../src/pki/x509/keys.ts';
import type { RotationState } from '../../../src/pki/authority/rotation-plan.ts';
import { issueServingCert } from '../../../src/pki/serving-certs/issue.ts';
import { firstCertificate, toCertificatePem, type CertificatePem } from '../../../src/pki/x509/pem.ts';

/** Recorded as trusted until its root ends, so that it may sign a cert of any length. */
export async function firstAuthority(now: Date, algorithm: KeyAlgorithm = 'ECDSA-P256'): Promise<Authority> {
  const first = await createAuthority({
    keyPair: await generateKeyPair(algorithm),
    serial: randomSerial(),
    now,
  });
  return recordTrust(first, [activeGeneration(first).id], after(now, 800 * DAY));
}

/** Adds a new generation, which clients trust and which does not sign yet. */
export async function prepared(authority: Authority, now: Date): Promise<Authority> {
  const [previous] = authority.generations;
  const pending = await createGeneration({
    keyPair: await generateKeyPair('ECDSA-P256'),
    serial: randomSerial(),
    now,
    previous,
  });
  return { generations: [pending, ...authority.generations] };
}

/** Activates the newest generation, and destroys the keys of the others. */
export function activated(authority: Authority, now: Date): Authority {
  const [newest] = authority.generations;
  if (newest === undefined) throw new Error('the authority is empty');
  return activate(authority, newest.id, now);
}

export async function rotated(authority: Authority, now: Date): Promise<Authority> {
  return activated(await prepared(authority, now), now);
}

/** The CA in the `data` of its Secret. */
export async function importedFrom(
  data: Readonly<Record<string, string>>,
  now: Date,
  scope = { dnsNames: [SERVER_NAME], addresses: [] as readonly string[] },
): Promise<ImportedAuthority> {
  const result = await importAuthority(data, scope, now);
  if (result.kind === 'refused') throw new Error(result.problem);
  return result.authority;
}

export const firstImported = async (imported: ImportedAuthority, now: Date): Promise<Authority> =>
  authorityOf(await importGeneration(imported, { serial: randomSerial(), now }), now);

/** Adds an imported CA, which clients trust and which does not sign yet. */
export async function preparedImport(
  before: Authority,
  imported: ImportedAuthority,
  now: Date,
): Promise<Authority> {
  const previous = activeGeneration(before);
  return prepare(
    before,
    await importGeneration(imported, { serial: randomSerial(), now, previous }),
    undefined,
  );
}

/** The leaf of a chain as PEM, with an end that is no time. Its signature is wrong then. */
export function withUnreadableEnd(chain: CertificatePem): string {
  const der = Buffer.from(firstCertificate(chain).raw);
  const utcTime = Buffer.from([0x17, 0x0d]); // tag and length
  const end = der.indexOf(utcTime, der.indexOf(utcTime) + 1);
  der.write('x'.repeat(13), end + utcTime.length, 'latin1');
  return toCertificatePem([{ raw: der }]);
}

export interface Server extends Awaited<ReturnType<typeof issueServingCert>> {
  readonly keyPair: KeyPair;
  readonly privateKey: KeyPair['privateKey'];
}

export const SERVER_NAME = 'db.prod.svc';

export async function serverOf(
  authority: Authority,
  now: Date,
  algorithm: KeyAlgorithm = 'ECDSA-P256',
  dnsName = SERVER_NAME,
): Promise<Server> {
  const keyPair = await generateKeyPair(algorithm);
  // As the leader does before each cert.
  const recorded = recordTrust(authority, [activeGeneration(authority).id], after(now, 2 * DAY));
  const order = { authority: recorded, dnsNames: [dnsName], keyPair, serial: randomSerial(), now };
  return {
    keyPair,
    privateKey: keyPair.privateKey,
    ...(await issueServingCert({ ...order, lifetimeMs: DAY })),
  };
}

export const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** A rotation for which nothing is due: every target has every root. */
export const rotationState = (
  given: Pick<RotationState, 'authority' | 'now'> & Partial<RotationState>,
): RotationState => ({
  times: { propagationWaitMs: 10 * MINUTE },
  targetsWithout: () => ({ vetoing: [], delaying: [] }),
  longestLifeMs: 90 * DAY,
  rotate: undefined,
  distrust: [],
  paused: undefined,
  activationProblem: undefined,
  imported: undefined,
  ...given,
});

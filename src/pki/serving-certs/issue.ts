import { activeGeneration, type Authority, bridgesFrom } from '../authority/authority.ts';
import { signRoot, signServingCert } from '../x509/certificate.ts';
import { memoizeWeak } from '../../json/json.ts';
import { SERVING_CERT_CLUSTER_IPS } from '../annotations.ts';
import {
  addressBytes,
  certificateFields,
  type CertificateFields,
  describeLimits,
  forbiddenAddress,
  forbiddenName,
  type LeafPurpose,
  USAGE_OF,
} from '../x509/certificate-fields.ts';
import { dnsNameProblem } from './dns-names.ts';
import { after, CLOCK_TOLERANCE, DAY, earliest } from '../durations.ts';
import { issuerOf, lifeOf, pathOf, signWith } from '../authority/generation.ts';
import type { KeyPair } from '../x509/keys.ts';
import { type CertificatePem, joinCertificatePems, toCertificatePem } from '../x509/pem.ts';

/** The authority must record a later `trustedUntil` first. Otherwise the root could be retired before the cert ends. */
export class TrustTooShort extends Error {
  override readonly name = 'TrustTooShort';
}

/** A CA above the cert does not permit a requested name, address or purpose. Retries do not help. */
export class OutsideConstraints extends Error {
  override readonly name = 'OutsideConstraints';
}

export interface ServingCertOrder {
  readonly authority: Authority;
  readonly purpose?: LeafPurpose;
  readonly dnsNames: readonly string[];
  readonly addresses?: readonly string[];
  readonly keyPair: Pick<KeyPair, 'publicKey'>;
  readonly serial: Uint8Array;
  readonly now: Date;
  readonly lifetimeMs: number;
}

/** @throws TrustTooShort, OutsideConstraints, or Error if the active generation is not valid yet or ends too soon */
export async function issueServingCert(order: ServingCertOrder) {
  const { authority, keyPair, serial, now, lifetimeMs, addresses = [], purpose = 'serving' } = order;
  const dnsNames = [...new Set(order.dnsNames)];
  checkDnsNames(dnsNames);

  const { signer, life, limits } = signerOf(authority);
  checkLimits({ dnsNames, addresses, purpose }, signer.id, limits);
  if (now < life.notBefore)
    throw new Error(
      `the clock says ${now.toISOString()}, which is before generation ${signer.id} of the authority begins ` +
        `(${life.notBefore.toISOString()}): a cert made now might be expired for everybody else. Check the clock.`,
    );
  const notAfter = servingCertEnd(now, lifetimeMs, life.notAfter);
  if (notAfter <= now)
    throw new Error(
      `generation ${signer.id} of the authority ends at ${life.notAfter.toISOString()}: too soon to issue a cert. ` +
        'Rotate the authority.',
    );
  const { trustedUntil } = signer;
  if (trustedUntil === undefined || notAfter > trustedUntil)
    throw new TrustTooShort(
      `generation ${signer.id} of the authority is recorded as trusted until ${trustedUntil?.toISOString() ?? 'no time'}, ` +
        `and the cert would end at ${notAfter.toISOString()}: the leader extends the record first`,
    );

  const notBefore = after(now, -CLOCK_TOLERANCE);
  const names = { dnsNames, addresses: addresses.map(addressBytes).filter((one) => one !== undefined) };
  const term = { serial, notBefore, notAfter };
  const leaf = await signServingCert(names, keyPair.publicKey, term, issuerOf(signer), purpose);
  // Never a root: many clients reject a chain with an unknown one.
  const chain = joinCertificatePems([leaf, ...bridgesFrom(authority, signer.id, now)]);
  return { chain, notBefore: inSeconds(notBefore), notAfter: inSeconds(notAfter) };
}

function checkLimits(
  { dnsNames, addresses, purpose }: Required<Pick<ServingCertOrder, 'dnsNames' | 'addresses' | 'purpose'>>,
  id: string,
  limits: readonly CertificateFields[],
): void {
  const name = forbiddenName(limits, dnsNames);
  if (name !== undefined)
    throw new OutsideConstraints(
      `the DNS name "${name}" is outside the name constraints of generation ${id} of the authority ` +
        `(${describeLimits(limits)}): rotate the authority, so that the next generation permits it`,
    );
  const address = forbiddenAddress(limits, addresses);
  if (address !== undefined)
    throw new OutsideConstraints(
      `the IP address ${address} is outside the name constraints of generation ${id} of the authority: ` +
        `remove the annotation ${SERVING_CERT_CLUSTER_IPS}, or use a CA that may sign IP addresses`,
    );
  if (limits.some(({ extendedKeyUsage }) => extendedKeyUsage?.includes(USAGE_OF[purpose]) === false))
    throw new OutsideConstraints(
      `generation ${id} of the authority cannot sign certificates for ${purpose === 'client' ? 'clients' : 'servers'}: ` +
        'its extended key usage does not allow it',
    );
}

const inSeconds = (time: Date): Date => new Date(Math.floor(time.getTime() / 1_000) * 1_000);

export const chainOf = (leaf: string, bridges: readonly CertificatePem[]): CertificatePem =>
  joinCertificatePems([toCertificatePem([{ raw: Buffer.from(leaf, 'base64') }]), ...bridges]);

const signerOf = memoizeWeak((authority: Authority) => {
  const signer = activeGeneration(authority);
  const limits = pathOf(signer).map(certificateFields);
  return { signer, life: lifeOf(signer), limits };
});

export const servingCertEnd = (issuedAt: Date, lifetimeMs: number, authorityEnd: Date): Date =>
  earliest(after(issuedAt, lifetimeMs), latestServingCertEnd(authorityEnd));

export const issueTime = (notBefore: Date): Date => after(notBefore, CLOCK_TOLERANCE);

/** No client may see a valid leaf of an expired CA. */
export const latestServingCertEnd = (authorityEnd: Date): Date => after(authorityEnd, -CLOCK_TOLERANCE);

function checkDnsNames(dnsNames: readonly string[]): void {
  if (dnsNames.length === 0) throw new Error('a serving cert needs at least one DNS name');
  for (const name of dnsNames) {
    const problem = dnsNameProblem(name);
    if (problem !== undefined)
      throw new Error(`the DNS name "${name}" cannot stand in a serving cert: it ${problem}`);
  }
}

export interface SessionCertOrder {
  /** A DNS name, or an IP address without brackets. */
  readonly host: string;
  readonly authorityKeys: KeyPair;
  readonly servingKeys: Pick<KeyPair, 'publicKey'>;
  readonly serials: { readonly authority: Uint8Array; readonly serving: Uint8Array };
  readonly now: Date;
}

const SESSION_LIFETIME = 7 * DAY;

/** From a CA that signs only this cert: the caller must discard its key. */
export async function issueSessionCert(order: SessionCertOrder) {
  const { host, authorityKeys, servingKeys, serials, now } = order;
  const validity = { notBefore: after(now, -CLOCK_TOLERANCE), notAfter: after(now, SESSION_LIFETIME) };
  const { publicKey, privateKey } = authorityKeys;
  const { issuer, certificate: authority } = await signRoot(
    'gatehouse-dev-session',
    { publicKey, sign: signWith(privateKey) },
    { ...validity, serial: serials.authority },
  );
  const address = addressBytes(host);
  const chain = await signServingCert(
    address === undefined ? { dnsNames: [host] } : { dnsNames: [], addresses: [address] },
    servingKeys.publicKey,
    { ...validity, serial: serials.serving },
    issuer,
  );
  return { authority, chain, notAfter: validity.notAfter };
}

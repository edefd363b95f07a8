/** A serving cert for one development session, from a CA that signs only this cert. */
import { signWith } from '../authority/sealed-key.ts';
import { addressBytes } from '../x509/addresses.ts';
import { signRoot, signServingCert } from '../x509/certificate.ts';
import { after, DAY } from '../durations.ts';
import { CLOCK_TOLERANCE } from '../lifetimes.ts';
import type { KeyPair } from '../x509/keys.ts';
import type { CertificatePem } from '../x509/pem.ts';

export interface SessionCertOrder {
  /** A DNS name, or an IP address without brackets. */
  readonly host: string;
  readonly authorityKeys: KeyPair;
  readonly servingKeys: Pick<KeyPair, 'publicKey'>;
  readonly serials: { readonly authority: Uint8Array; readonly serving: Uint8Array };
  readonly now: Date;
}

export interface SessionCert {
  /** The root that the API server must trust. */
  readonly authority: CertificatePem;
  readonly chain: CertificatePem;
  readonly notAfter: Date;
}

/** No session lasts longer. After a crash, leftover key material is worthless after this time. */
const LIFETIME = 7 * DAY;

/** The caller must discard the key of the authority: no session needs a second certificate. */
export async function issueSessionCert(order: SessionCertOrder): Promise<SessionCert> {
  const { host, authorityKeys, servingKeys, serials, now } = order;
  const validity = { notBefore: after(now, -CLOCK_TOLERANCE), notAfter: after(now, LIFETIME) };
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

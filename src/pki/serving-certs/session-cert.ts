/** A serving cert for one development session, from a CA that signs only this cert. */
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
export function issueSessionCert(order: SessionCertOrder): SessionCert {
  const { host, authorityKeys, servingKeys, serials, now } = order;
  const validity = { notBefore: after(now, -CLOCK_TOLERANCE), notAfter: after(now, LIFETIME) };
  const { issuer, certificate: authority } = signRoot('gatehouse-dev-session', authorityKeys, {
    ...validity,
    serial: serials.authority,
  });
  const address = addressBytes(host);
  const chain = signServingCert(
    address === undefined ? { dnsNames: [host] } : { dnsNames: [], addresses: [address] },
    servingKeys.publicKey,
    { ...validity, serial: serials.serving },
    issuer,
  );
  return { authority, chain, notAfter: validity.notAfter };
}

/** URLs normalise IPv4 addresses to this form. No DNS name ends in a number (RFC 1123 §2.1). */
const DOTTED = /^\d+\.\d+\.\d+\.\d+$/;

/** 4 or 16 octets, the format of addresses in certificates (RFC 5280 §4.2.1.6); undefined for a DNS name. */
export function addressBytes(host: string): Uint8Array | undefined {
  if (DOTTED.test(host)) return Uint8Array.from(host.split('.'), Number);
  if (!host.includes(':')) return undefined;
  const [head = '', tail] = host.split('::');
  const left = groupsOf(head);
  const right = tail === undefined ? [] : groupsOf(tail);
  const gap = Array.from({ length: 8 - left.length - right.length }, () => 0);
  return Uint8Array.from([...left, ...gap, ...right].flatMap((group) => [group >> 8, group & 0xff]));
}

/** URLs normalise IPv6 addresses to hexadecimal groups, without a dotted IPv4 end. */
const groupsOf = (text: string): readonly number[] =>
  text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));

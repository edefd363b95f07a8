/** A serving cert for one session on a laptop, by a CA that signs it and nothing else. */
import { EMPTY_NAME, commonName, keyIdOf, signCertificate, type Issuer } from '../x509/certificate.ts';
import { after, DAY, HOUR } from '../durations.ts';
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
  /** What the API server is to trust. */
  readonly authority: CertificatePem;
  readonly chain: CertificatePem;
  readonly notAfter: Date;
}

/** Nobody works for longer without a break; what is left of it after a crash is worth nothing then. */
const LIFETIME = 7 * DAY;
/** The clocks of a laptop and of an API server differ. */
const BACKDATE = HOUR;

/** Whoever calls this forgets the key of the authority: no second certificate is ever wanted. */
export function issueSessionCert(order: SessionCertOrder): SessionCert {
  const { host, authorityKeys, servingKeys, serials, now } = order;
  const issuer: Issuer = {
    name: commonName('gatehouse-dev-session'),
    keyId: keyIdOf(authorityKeys.publicKey),
    privateKey: authorityKeys.privateKey,
  };
  const validity = { notBefore: after(now, -BACKDATE), notAfter: after(now, LIFETIME) };
  const address = addressBytes(host);
  return {
    authority: signCertificate(
      {
        ...validity,
        subject: issuer,
        publicKey: authorityKeys.publicKey,
        serial: serials.authority,
        purpose: { kind: 'authority' },
      },
      issuer,
    ),
    chain: signCertificate(
      {
        ...validity,
        subject: { name: EMPTY_NAME, keyId: keyIdOf(servingKeys.publicKey) },
        publicKey: servingKeys.publicKey,
        serial: serials.serving,
        purpose:
          address === undefined
            ? { kind: 'serving', dnsNames: [host] }
            : { kind: 'serving', dnsNames: [], addresses: [address] },
      },
      issuer,
    ),
    notAfter: validity.notAfter,
  };
}

/** As a URL writes IPv4, whatever was typed; no DNS name ends in a number (RFC 1123 §2.1). */
const DOTTED = /^\d+\.\d+\.\d+\.\d+$/;

/** 4 or 16 octets, as a certificate has them (RFC 5280 §4.2.1.6); undefined for a DNS name. */
export function addressBytes(host: string): Uint8Array | undefined {
  if (DOTTED.test(host)) return Uint8Array.from(host.split('.'), Number);
  if (!host.includes(':')) return undefined;
  const [head = '', tail] = host.split('::');
  const left = groupsOf(head);
  const right = tail === undefined ? [] : groupsOf(tail);
  const gap = Array.from({ length: 8 - left.length - right.length }, () => 0);
  return Uint8Array.from([...left, ...gap, ...right].flatMap((group) => [group >> 8, group & 0xff]));
}

/** A URL writes IPv6 in hexadecimal throughout: no dotted end is left. */
const groupsOf = (text: string): readonly number[] =>
  text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));

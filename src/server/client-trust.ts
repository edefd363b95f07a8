/** Who a client of the webhook port is, by the certificate that it shows. */
import { X509Certificate } from 'node:crypto';
import type { TLSSocket } from 'node:tls';

/** Whom the port lets in. */
export interface ClientTrust {
  /** PEM: each of these CAs vouches for clients. */
  readonly ca: string;
  /** Subject common names and DNS names, one of which a client has to bear; none: whoever has a certificate of these CAs. */
  readonly names: readonly string[];
  /**
   * What takes a certificate. With `admission` conversions do not: kube-apiserver shows none when it has objects converted,
   * whatever `--admission-control-config-file` says.
   */
  readonly scope: 'admission' | 'all';
}

export type Client =
  | { readonly kind: 'anonymous' }
  /** `until`: when its certificate ends, in milliseconds since 1970. */
  | { readonly kind: 'known'; readonly until: number }
  | { readonly kind: 'refused'; readonly reason: 'untrusted' | 'name'; readonly why: string };

/** @throws with a sentence when `text` is not one CA certificate or more, in PEM, each with its issuers up to the root. */
export function readClientCa(text: string): string {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  const begun = text.split('-----BEGIN CERTIFICATE-----').length - 1;
  if (begun === 0) throw new Error('there is no certificate in it (PEM)');
  if (begun !== blocks.length) throw new Error('a certificate in it has no end');
  const certificates = blocks.map(parse);
  for (const [index, certificate] of certificates.entries()) {
    if (!certificate.ca) throw new Error(`certificate ${index + 1} in it is not that of a CA`);
    // Node's servers trust no chain that does not end in a root, whatever `allowPartialTrustChain` says.
    if (!certificates.some((issuer) => certificate.checkIssued(issuer)))
      throw new Error(`the issuer of certificate ${index + 1} is missing in it: add those up to the root`);
  }
  return `${blocks.join('\n')}\n`;
}

function parse(block: string, index: number): X509Certificate {
  try {
    return new X509Certificate(block);
  } catch (cause) {
    throw new Error(`certificate ${index + 1} in it cannot be read`, { cause });
  }
}

/** Judges a client whose handshake has just been finished, by a server that asks for certificates and takes any. */
export function clientOf(socket: TLSSocket, { names }: ClientTrust): Client {
  // OpenSSL takes a session that goes on for verified, also where nothing was shown when it began, and by the CAs of that day.
  if (socket.isSessionReused()) return untrusted('it resumes a session');
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return { kind: 'anonymous' };
  if (!socket.authorized) return untrusted(reasonOf(socket.authorizationError));
  // Node gives a list when there are several: no name that could be relied on.
  const { CN: commonName } = socket.getPeerCertificate().subject as { readonly CN?: unknown };
  const bears = (name: string): boolean =>
    name === commonName || certificate.checkHost(name, { subject: 'never', wildcards: false }) !== undefined;
  if (names.length > 0 && !names.some(bears)) {
    return { kind: 'refused', reason: 'name', why: `its certificate is for ${String(commonName)}` };
  }
  return { kind: 'known', until: certificate.validToDate.getTime() };
}

const untrusted = (why: string): Client => ({ kind: 'refused', reason: 'untrusted', why });

/** Node's types say Error; it is the code, such as CERT_HAS_EXPIRED. */
const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

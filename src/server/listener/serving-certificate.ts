/**
 * The serving certificate and TLS options of the listener. A certificate can be swapped while connections stay open.
 */
import { constants } from 'node:crypto';
import { createSecureContext, type SecureContextOptions, type Server } from 'node:tls';

/** PEM: the leaf with its intermediates, and the private key. */
export interface ServingCertificate {
  readonly chain: string;
  readonly key: string;
}

/** From TLS 1.2, only suites with forward secrecy and authenticated encryption. All suites of TLS 1.3 have both. */
const CIPHERS = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE+AESGCM',
  'ECDHE+CHACHA20',
].join(':');

/**
 * No renegotiation: a client could make the server sign again and again. No session tickets: a resumed session does not
 * ask for the client certificate again, and the API server never resumes one.
 */
const NEVER = constants.SSL_OP_NO_RENEGOTIATION | constants.SSL_OP_NO_TICKET;

/**
 * The complete TLS options. A swap must repeat all of them: Node resets missing options to its defaults.
 *
 * @param clientCa PEM of the CAs of client certificates; undefined: the server requests no client certificate
 */
export function secureOptions({ chain, key }: ServingCertificate, clientCa?: string) {
  return {
    cert: chain,
    key,
    minVersion: 'TLSv1.2',
    ciphers: CIPHERS,
    secureOptions: NEVER,
    ...(clientCa === undefined ? {} : { ca: clientCa }),
  } as const satisfies SecureContextOptions;
}

/**
 * Presents `certificate` on new connections. Open connections keep theirs.
 * @throws if key and certificate do not match; the server keeps its current certificate
 */
export function swapCertificate(
  server: Pick<Server, 'setSecureContext'>,
  certificate: ServingCertificate,
  clientCa?: string,
): void {
  const options = secureOptions(certificate, clientCa);
  createSecureContext(options); // throws before the server changes
  server.setSecureContext(options);
}

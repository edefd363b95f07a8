/** The certificate that the listener presents, and what else is agreed on in a handshake: swapped while connections stay open. */
import { constants } from 'node:crypto';
import { createSecureContext, type SecureContextOptions, type Server } from 'node:tls';

/** PEM: the leaf and what follows it, and its private key. */
export interface ServingCertificate {
  readonly chain: string;
  readonly key: string;
}

/** Of TLS 1.2 only what has forward secrecy and authenticates what it encrypts; all of TLS 1.3 does. */
const CIPHERS = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE+AESGCM',
  'ECDHE+CHACHA20',
].join(':');

/**
 * No renegotiation, with which a client has the server sign again and again. No tickets: who resumes a session is not asked for
 * its certificate again, and the API server never does resume one.
 */
const NEVER = constants.SSL_OP_NO_RENEGOTIATION | constants.SSL_OP_NO_TICKET;

/**
 * All that a swap must say again: what it leaves out falls back to Node's default.
 *
 * @param clientCa PEM of the CAs whose certificates clients show; undefined: nobody asks them.
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
 * Presents `certificate` on new connections; those that are open keep theirs.
 * @throws when key and certificate do not belong together; the server then goes on with what it has.
 */
export function swapCertificate(
  server: Pick<Server, 'setSecureContext'>,
  certificate: ServingCertificate,
  clientCa?: string,
): void {
  const options = secureOptions(certificate, clientCa);
  createSecureContext(options); // throws before the server has lost what it had
  server.setSecureContext(options);
}

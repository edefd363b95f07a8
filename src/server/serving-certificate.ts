/** The certificate that the listener presents: swapped while connections stay open. */
import { createSecureContext, type SecureContextOptions, type Server } from 'node:tls';

/** PEM: the leaf and what follows it, and its private key. */
export interface ServingCertificate {
  readonly chain: string;
  readonly key: string;
}

/** All that a swap must say again: what it leaves out falls back to Node's default. */
export function secureOptions({ chain, key }: ServingCertificate) {
  return { cert: chain, key, minVersion: 'TLSv1.2' } as const satisfies SecureContextOptions;
}

/**
 * Presents `certificate` on new connections; those that are open keep theirs.
 * @throws when key and certificate do not belong together; the server then goes on with what it has.
 */
export function swapCertificate(
  server: Pick<Server, 'setSecureContext'>,
  certificate: ServingCertificate,
): void {
  const options = secureOptions(certificate);
  createSecureContext(options); // throws before the server has lost what it had
  server.setSecureContext(options);
}

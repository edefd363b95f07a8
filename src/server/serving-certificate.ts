/** The certificate that the listener presents: swapped while connections stay open. */
import { createSecureContext } from 'node:tls';

/** PEM: the leaf and what follows it, and its private key. */
export interface ServingCertificate {
  readonly chain: string;
  readonly key: string;
}

interface SecureServer {
  readonly setSecureContext: (options: { readonly cert: string; readonly key: string }) => void;
}

/**
 * Presents `certificate` on new connections; those that are open keep theirs.
 * @throws when key and certificate do not belong together; the server then goes on with what it has.
 */
export function swapCertificate(server: SecureServer, certificate: ServingCertificate): void {
  const options = { cert: certificate.chain, key: certificate.key };
  createSecureContext(options); // throws before the server has lost what it had
  server.setSecureContext(options);
}

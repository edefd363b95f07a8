/** Asks a server for its certificate: one TLS handshake, nothing else. The server may be hostile. */
import type { X509Certificate } from 'node:crypto';
import { connect } from 'node:net';
import { connect as connectTls, createSecureContext, type TLSSocket } from 'node:tls';
import { hasReadableValidity } from '../../pki/x509/pem.ts';

export type Answer =
  | { readonly kind: 'leaf'; readonly leaf: X509Certificate }
  | { readonly kind: 'unreachable' }
  | { readonly kind: 'no-tls' };

export interface Question {
  readonly address: string;
  readonly port: number;
  readonly serverName: string;
}

const TIMEOUT_MS = 5_000;
/** OpenSSL limits each message, but not their number: a server can send empty ones without an end. */
const MAX_BYTES = 256 * 1024;
const COUNT_EVERY_MS = 20;

/**
 * Accepts every certificate and every version of TLS: nothing is sent, and only the leaf is used. No finite-field
 * Diffie-Hellman: a server could choose parameters that take a second to compute. No post-quantum key share: it is slow.
 */
const context = createSecureContext({
  ca: [],
  ciphers: 'DEFAULT:!DH:@SECLEVEL=0',
  ecdhCurve: 'X25519:P-256:P-384:P-521',
  minVersion: 'TLSv1',
});

/** Resolves within the timeout, and when the signal aborts. Never rejects. */
export function askForLeaf(
  { address, port, serverName }: Question,
  signal: AbortSignal,
  timeoutMs = TIMEOUT_MS,
): Promise<Answer> {
  return new Promise((resolve) => {
    let isConnected = false;
    const tcp = connect({ host: address, port }); // counts the bytes; a TLS socket does not
    tcp.on('error', () => undefined); // its end closes the TLS socket
    const socket = connectTls({
      socket: tcp,
      servername: serverName,
      secureContext: context,
      rejectUnauthorized: false, // the answer is compared with the Secret, byte by byte
    });
    const end = (): void => {
      clearTimeout(timer);
      clearInterval(counter);
      signal.removeEventListener('abort', end);
      const leaf = leafOf(socket);
      socket.destroy();
      tcp.destroy();
      if (leaf !== undefined) resolve({ kind: 'leaf', leaf });
      else resolve({ kind: isConnected ? 'no-tls' : 'unreachable' });
    };
    const timer = setTimeout(end, timeoutMs);
    const counter = setInterval(() => {
      if (tcp.bytesRead > MAX_BYTES) end();
    }, COUNT_EVERY_MS);
    signal.addEventListener('abort', end, { once: true });
    tcp.once('connect', () => (isConnected = true));
    // Completes the handshake: servers log one that is broken off.
    socket.once('secureConnect', () => socket.end());
    socket.once('finish', end);
    socket.once('close', end);
    // A server that requires a client certificate breaks off, but only after it has shown its own.
    socket.on('error', end);
  });
}

function leafOf(socket: TLSSocket): X509Certificate | undefined {
  try {
    const leaf = socket.getPeerX509Certificate();
    return leaf !== undefined && hasReadableValidity(leaf) ? leaf : undefined;
  } catch {
    return undefined; // OpenSSL accepted a certificate that Node cannot parse
  }
}

/** The end of a connection whose client is still writing. */
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { Server } from 'node:https';
import type { Socket } from 'node:net';

/** Several times the largest request that is taken: whoever is over the limit by mistake can send all of it. */
const LINGER_BYTES = 32 * 1024 * 1024;

/**
 * `answer` as a body that is sent at once and ends when the rest of `request` has been read and thrown away, or after `lingerMs`
 * milliseconds or 32 MiB. A connection closes with the end of its last answer, and one that closes on unread bytes is reset,
 * which may cost the client the answer (RFC 9112, section 9.6).
 *
 * Send it with its content length: the client has the whole answer then, and need not wait for the end.
 */
export function drainAfter(answer: string, request: IncomingMessage, lingerMs: number): Readable {
  return Readable.from(inStages(answer, request, lingerMs));
}

async function* inStages(answer: string, request: IncomingMessage, lingerMs: number): AsyncGenerator<string> {
  yield answer;
  const enough = new AbortController();
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > LINGER_BYTES) enough.abort();
  });
  const signal = AbortSignal.any([enough.signal, AbortSignal.timeout(lingerMs)]);
  // Read to its end, hung up or cut short: the connection closes now.
  await finished(request, { signal }).catch(() => undefined);
}

/** An end that no client can hold up. */
/**
 * Prepares `server` for its end. Call the function returned just before the server closes: from then on whoever is silent is
 * cut off at once, and whoever is slow after `graceMs`.
 *
 * A server that closes waits for its connections, and Node stops looking for overdue ones at that moment. It counts a connection
 * as busy that was opened and never used, of which the API server keeps some in reserve.
 */
export function prepareClosing(server: Server, graceMs: number): () => void {
  const unused = new Set<Socket>();
  server.on('secureConnection', (socket) => {
    unused.add(socket);
    socket.once('close', () => unused.delete(socket));
  });
  server.on('request', ({ socket }) => unused.delete(socket));

  return () => {
    for (const socket of unused) socket.destroy();
    setTimeout(() => {
      server.closeAllConnections();
    }, graceMs).unref();
  };
}

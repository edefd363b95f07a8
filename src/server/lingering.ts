/** The end of a connection whose client is still writing. */
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';

/** Several times the largest request that is taken: whoever is over the limit by mistake can send all of it. */
const LINGER_BYTES = 32 * 1024 * 1024;

/**
 * `answer` as a body that is sent at once and ends when the rest of `request` has been read and thrown away, or after `lingerMs`
 * milliseconds or 32 MiB. A connection closes with the end of its last answer, and one that closes on unread bytes is reset,
 * which may cost the client the answer (RFC 9112, section 9.6).
 *
 * Send it with its content length: the client has the whole answer then, and need not wait for the end.
 */
export function lingering(answer: string, request: IncomingMessage, lingerMs: number): Readable {
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

/** Ends connections whose client may still be writing, or about to write. */
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Server } from 'node:https';
import type { Socket } from 'node:net';

/** Several times the body limit: a client that exceeds the limit by mistake can finish sending. */
const LINGER_BYTES = 32 * 1024 * 1024;

/**
 * A response body that sends `answer` at once. It ends after the rest of `request` is read and discarded, after
 * `lingerMs` milliseconds, or after 32 MiB. Node closes the connection after the last response. Closing with unread
 * bytes resets the connection, and the client may lose the response (RFC 9112, section 9.6).
 *
 * Send it with its content length: then the client has the whole response and does not wait for the end of the body.
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
  // The request is complete, aborted or over a limit: close the connection now.
  await finished(request, { signal }).catch(() => undefined);
}

/** In milliseconds. */
const STAGED_MS = 2_000;

/**
 * Prepares `server` for shutdown, so that no client can delay it. The caller calls the returned function just before it
 * closes the server, and waits for it. It destroys idle connections, and all others after `graceMs`.
 *
 * A closing server waits for its connections, and Node stops its timeout checks at that moment. Node counts a
 * connection that has never carried a request as busy, and the API server keeps some of those in reserve.
 *
 * A request that has arrived, but is not read, is lost with its connection, and closing many connections takes long in a
 * process that waits for the CPU. So each turn of the event loop reads what has arrived, and then closes one connection.
 * After two seconds, the rest are closed at once: clients must not delay this with slow turns or new connections.
 *
 * @param isIdle whether a connection has begun no request, or is between two
 */
export function prepareClosing(
  server: Server,
  graceMs: number,
  isIdle: (socket: Socket) => boolean,
): () => Promise<void> {
  const open = new Set<Socket>();
  server.on('secureConnection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });

  return async () => {
    setTimeout(() => server.closeAllConnections(), graceMs).unref();
    await nextTurn(); // may end the present turn, which has read its sockets already
    const until = performance.now() + STAGED_MS;
    for (const socket of open) {
      if (!isIdle(socket)) continue;
      if (performance.now() < until) await nextTurn();
      if (isIdle(socket)) socket.destroy();
    }
  };
}

/**
 * Limits the age of the connections of `server`. The API server spreads connections over the replicas, not requests, and keeps a
 * busy connection open: without a limit, a new replica gets no requests. Each connection gets a limit between one and two times
 * `lifetimeMs`, so that connections that began together do not end together.
 *
 * @returns whether the next response on a connection must end it. Closing an idle connection because of its age is not safe: the
 * API server may be writing a request
 */
export function limitAge(
  server: Server,
  lifetimeMs: number,
  random = Math.random,
  now = () => performance.now(),
): (socket: Socket) => boolean {
  const ends = new WeakMap<Socket, number>();
  server.on('secureConnection', (socket) => {
    ends.set(socket, now() + lifetimeMs * (1 + random()));
  });
  return (socket) => now() >= (ends.get(socket) ?? Infinity);
}

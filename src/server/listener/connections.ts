/** Limits the number and the age of connections, and ends those whose client may still be writing. */
import type { IncomingMessage, Server as HttpServer, ServerResponse } from 'node:http';
import type { Server } from 'node:https';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** As `performance.now()` returns it, in milliseconds. */
  readonly began: number;
}

interface Connection {
  readonly key: string;
  readonly socket: Socket;
  readonly exchanges: Set<Exchange>;
  /** Whether its last response was successful. */
  isProven: boolean;
  /** When its last exchange began or ended, as `performance.now()` returns it, in milliseconds. */
  since: number;
  /** By the end of its last exchange, of its TLS socket. */
  bytesRead: number;
}

/**
 * Limits `server` to `most` connections. Above this limit, closes the first of these:
 *
 * 1. the oldest connection without a successful response; a new connection of the API server is in this group only for
 *    a moment;
 * 2. a connection whose client has been sending a request, or reading a response, for more than `slowAfterMs`;
 * 3. the connection that has been idle longest;
 * 4. the new connection: all others are waiting for a response.
 *
 * @param crowdedOut called for each of these
 * @returns functions that count the connections, and tell whether a TLS socket has begun no request, or is between two
 */
export function limitConnections(
  server: HttpServer | Server,
  most: number,
  slowAfterMs: number,
  crowdedOut: () => void,
): { readonly count: () => number; readonly isIdle: (socket: Socket) => boolean } {
  const all = new Map<string, Connection>();
  /** Keyed by the TLS socket: each request looks it up, and reading addresses is slow. */
  const known = new WeakMap<Socket, Connection>();
  const connectionOf = (socket: Socket): Connection | undefined => {
    const before = known.get(socket);
    if (before !== undefined) return before;
    const found = all.get(addressOf(socket) ?? '');
    if (found !== undefined) known.set(socket, found);
    return found;
  };

  server.on('connection', (socket: Socket) => {
    const key = addressOf(socket);
    if (key === undefined) {
      socket.destroy(); // the client has disconnected already
      return;
    }
    const connection = {
      key,
      socket,
      exchanges: new Set<Exchange>(),
      isProven: false,
      since: performance.now(),
      bytesRead: 0,
    };
    all.set(key, connection);
    socket.once('close', () => {
      // A new connection may use the same address and port by now.
      if (all.get(key) === connection) all.delete(key);
    });
    if (all.size <= most) return;
    crowdedOut();
    const left = leastUseful(connection, all.values(), slowAfterMs);
    // Its socket closes later: until then, it must neither count nor be chosen again.
    all.delete(left.key);
    left.socket.destroy();
  });

  // Every request runs this: all sorting is left to the moment when there are too many connections.
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const connection = connectionOf(request.socket);
    if (connection === undefined) return;
    const exchange: Exchange = { request, response, began: performance.now() };
    connection.exchanges.add(exchange);
    connection.since = exchange.began;
    response.on('close', () => {
      connection.exchanges.delete(exchange);
      connection.isProven = response.statusCode < 400;
      connection.since = performance.now();
      connection.bytesRead = request.socket.bytesRead;
    });
  });
  return {
    count: () => all.size,
    isIdle: (socket) => {
      const connection = known.get(socket);
      if (connection === undefined) return socket.bytesRead === 0;
      return connection.exchanges.size === 0 && connection.bytesRead === socket.bytesRead;
    },
  };
}

function leastUseful(newcomer: Connection, all: Iterable<Connection>, slowAfterMs: number): Connection {
  const began = performance.now() - slowAfterMs;
  const longest: Partial<Record<'unproven' | 'slow' | 'waiting', Connection>> = {};
  for (const connection of all) {
    const { exchanges, isProven, since } = connection;
    const isSlow = [...exchanges].every((exchange) => exchange.began < began && isClientTurn(exchange));
    if (connection === newcomer || !isSlow) continue;
    const group = exchanges.size > 0 ? 'slow' : isProven ? 'waiting' : 'unproven';
    if (since < (longest[group]?.since ?? Infinity)) longest[group] = connection;
  }
  return longest.unproven ?? longest.slow ?? longest.waiting ?? newcomer;
}

/** Whether the server waits for the client to send the request or to read the response. */
const isClientTurn = ({ request, response }: Exchange): boolean =>
  !request.complete || response.writableEnded;

/** The TCP socket and the TLS socket of one connection have the same address. */
const addressOf = ({ remoteAddress, remotePort }: Socket): string | undefined =>
  remoteAddress === undefined || remotePort === undefined ? undefined : `${remoteAddress}|${remotePort}`;

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

/** Limits the number of connections: above the limit, the least useful one is closed. */
import type { IncomingMessage, Server as HttpServer, ServerResponse } from 'node:http';
import type { Server } from 'node:https';
import type { Socket } from 'node:net';

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
    const found = all.get(keyOf(socket) ?? '');
    if (found !== undefined) known.set(socket, found);
    return found;
  };

  server.on('connection', (socket: Socket) => {
    const key = keyOf(socket);
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

/** The TCP socket and the TLS socket of one connection have the same key. */
const keyOf = ({ remoteAddress, remotePort }: Socket): string | undefined =>
  remoteAddress === undefined || remotePort === undefined ? undefined : `${remoteAddress}|${remotePort}`;

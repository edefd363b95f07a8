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
  group: Group;
}

/** In insertion order: the oldest entry is first. */
type Group = Map<string, Connection>;

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
 * @returns a function that counts the connections
 */
export function limitConnections(
  server: HttpServer | Server,
  most: number,
  slowAfterMs: number,
  crowdedOut: () => void,
): () => number {
  const unproven: Group = new Map();
  const busy: Group = new Map();
  const waiting: Group = new Map();
  /** Keyed by the TLS socket: each request looks it up, and reading addresses is slow. */
  const known = new WeakMap<Socket, Connection>();
  const count = () => unproven.size + busy.size + waiting.size;
  const move = (connection: Connection, to: Group) => {
    connection.group.delete(connection.key);
    connection.group = to;
    to.set(connection.key, connection);
  };
  const connectionOf = (socket: Socket): Connection | undefined => {
    const before = known.get(socket);
    if (before !== undefined) return before;
    const key = keyOf(socket) ?? '';
    const found = unproven.get(key) ?? busy.get(key) ?? waiting.get(key);
    if (found !== undefined) known.set(socket, found);
    return found;
  };

  server.on('connection', (socket: Socket) => {
    const key = keyOf(socket);
    if (key === undefined) {
      socket.destroy(); // the client has disconnected already
      return;
    }
    const connection: Connection = { key, socket, exchanges: new Set(), group: unproven };
    unproven.set(key, connection);
    socket.once('close', () => {
      // A new connection may use the same address and port by now.
      if (connection.group.get(key) === connection) connection.group.delete(key);
    });
    if (count() <= most) return;
    crowdedOut();
    leastUseful(connection, { unproven, busy, waiting }, slowAfterMs).socket.destroy();
  });

  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const connection = connectionOf(request.socket);
    if (connection === undefined) return;
    const exchange: Exchange = { request, response, began: performance.now() };
    connection.exchanges.add(exchange);
    if (connection.group !== busy) move(connection, busy);
    response.once('close', () => {
      connection.exchanges.delete(exchange);
      if (connection.exchanges.size > 0 || busy.get(connection.key) !== connection) return;
      move(connection, response.statusCode < 400 ? waiting : unproven);
    });
  });
  return count;
}

function leastUseful(
  newcomer: Connection,
  { unproven, busy, waiting }: Readonly<Record<'unproven' | 'busy' | 'waiting', Group>>,
  slowAfterMs: number,
): Connection {
  const [oldest] = unproven.values();
  if (oldest !== undefined && oldest !== newcomer) return oldest;
  const began = performance.now() - slowAfterMs;
  for (const connection of busy.values()) {
    if ([...connection.exchanges].every((exchange) => exchange.began < began && isClientTurn(exchange)))
      return connection;
  }
  const [longest] = waiting.values();
  return longest ?? newcomer;
}

/** Whether the server waits for the client to send the request or to read the response. */
const isClientTurn = ({ request, response }: Exchange): boolean =>
  !request.complete || response.writableEnded;

/** The TCP socket and the TLS socket of one connection have the same key. */
const keyOf = ({ remoteAddress, remotePort }: Socket): string | undefined =>
  remoteAddress === undefined || remotePort === undefined ? undefined : `${remoteAddress}|${remotePort}`;

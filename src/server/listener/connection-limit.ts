/** A ceiling on connections under which a new client still gets in: somebody who is of less use has to leave. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Server } from 'node:https';
import type { Socket } from 'node:net';

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** By performance.now(), in milliseconds. */
  readonly began: number;
}

interface Connection {
  readonly key: string;
  readonly socket: Socket;
  readonly exchanges: Set<Exchange>;
  room: Room;
}

/** The one that has been there for longest is first. */
type Room = Map<string, Connection>;

/** The API server writes a request at once. Whoever needs longer may be one who means to stay. In milliseconds. */
const AT_ONCE_MS = 5_000;

/**
 * Keeps `server` from holding more than `most` connections. When one more comes, one is closed, in this order:
 *
 * 1. of those that have never had a good answer, the oldest; the API server asks at once, and is among them for a moment;
 * 2. one that has been sending its request, or reading its answer, for more than five seconds;
 * 3. of those that wait between two requests, the one that waits longest;
 * 4. the new one: all others are being answered.
 *
 * @param crowdedOut called for each connection that had to leave
 * @returns how many there are
 */
export function limitConnections(server: Server, most: number, crowdedOut: () => void): () => number {
  const unproven: Room = new Map();
  const busy: Room = new Map();
  const waiting: Room = new Map();
  /** By the encrypted socket: each request looks for it, and addresses are dear. */
  const known = new WeakMap<Socket, Connection>();
  const count = () => unproven.size + busy.size + waiting.size;
  const move = (connection: Connection, to: Room) => {
    connection.room.delete(connection.key);
    connection.room = to;
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
      socket.destroy(); // it has gone again
      return;
    }
    const connection: Connection = { key, socket, exchanges: new Set(), room: unproven };
    unproven.set(key, connection);
    socket.once('close', () => {
      // A new connection may have its address by now.
      if (connection.room.get(key) === connection) connection.room.delete(key);
    });
    if (count() <= most) return;
    crowdedOut();
    leastUseful(connection, { unproven, busy, waiting }).socket.destroy();
  });

  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const connection = connectionOf(request.socket);
    if (connection === undefined) return;
    const exchange: Exchange = { request, response, began: performance.now() };
    connection.exchanges.add(exchange);
    if (connection.room !== busy) move(connection, busy);
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
  { unproven, busy, waiting }: Readonly<Record<'unproven' | 'busy' | 'waiting', Room>>,
): Connection {
  const [oldest] = unproven.values();
  if (oldest !== undefined && oldest !== newcomer) return oldest;
  const began = performance.now() - AT_ONCE_MS;
  for (const connection of busy.values()) {
    if ([...connection.exchanges].every((exchange) => exchange.began < began && isTheirTurn(exchange)))
      return connection;
  }
  const [longest] = waiting.values();
  return longest ?? newcomer;
}

/** Whether it is the client that the next byte has to come from, or to be read by. */
const isTheirTurn = ({ request, response }: Exchange): boolean => !request.complete || response.writableEnded;

/** Both ends of a TLS connection, the socket that was accepted and the one that is encrypted, have the same. */
const keyOf = ({ remoteAddress, remotePort }: Socket): string | undefined =>
  remoteAddress === undefined || remotePort === undefined ? undefined : `${remoteAddress}|${remotePort}`;

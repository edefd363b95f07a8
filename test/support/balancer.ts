/** A TCP balancer on loopback: one address for several replicas, as a Service provides. */
import { connect, createServer, type Socket } from 'node:net';

export interface Balancer {
  readonly port: number;
  /** Ports for new connections, round robin. The balancer skips a backend that refuses. */
  readonly setBackends: (ports: readonly number[]) => void;
  /** Number of connections that clients have opened so far. */
  readonly accepted: () => number;
  /**
   * Ends every `nth` connection, newest first, and waits until the clients have closed their side. Returns the number
   * ended. Requests in flight on them are lost: the caller must ensure that none are in flight.
   */
  readonly cut: (nth: number) => Promise<number>;
  readonly stop: () => Promise<void>;
}

export async function startBalancer(): Promise<Balancer> {
  let backends: readonly number[] = [];
  let next = 0;
  let accepted = 0;
  const sockets = new Set<Socket>();
  const clients = new Set<Socket>();

  const track = (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
  };
  const forward = (client: Socket, attemptsLeft: number) => {
    const port = backends[next++ % Math.max(backends.length, 1)];
    if (port === undefined || attemptsLeft === 0) {
      client.destroy();
      return;
    }
    const backend = connect(port, '127.0.0.1');
    backend.once('error', () => {
      if (backend.connecting || backend.bytesRead === 0) forward(client, attemptsLeft - 1);
    });
    backend.once('connect', () => {
      backend.removeAllListeners('error');
      track(backend);
      client.pipe(backend).pipe(client);
      client.once('close', () => backend.destroy());
      backend.once('close', () => client.destroy());
    });
  };

  const server = createServer((client) => {
    accepted += 1;
    track(client);
    clients.add(client);
    client.once('close', () => clients.delete(client));
    forward(client, backends.length);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
  return {
    port: address.port,
    setBackends: (ports) => {
      backends = ports;
    },
    accepted: () => accepted,
    cut: async (nth) => {
      const chosen = [...clients].toReversed().filter((_client, index) => index % nth === 0);
      await Promise.all(chosen.map(hangUp));
      return chosen.length;
    },
    stop: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Sends a FIN first: a client that has received it sends nothing more. */
async function hangUp(socket: Socket): Promise<void> {
  const closed = new Promise((resolve) => socket.once('close', resolve));
  const force = setTimeout(() => socket.destroy(), 1_000);
  socket.end();
  await closed;
  clearTimeout(force);
}

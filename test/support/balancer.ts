/** A TCP balancer on loopback: one address for several replicas, as a Service provides. */
import { connect, createServer, type Socket } from 'node:net';

import { listen } from './tls.ts';

export type Balancer = Awaited<ReturnType<typeof startBalancer>>;

export async function startBalancer() {
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
  return {
    port: await listen(server),
    /** Ports for new connections, round robin. The balancer skips a backend that refuses. */
    setBackends: (ports: readonly number[]) => void (backends = ports),
    accepted: () => accepted,
    /** Ends every `nth` connection, newest first, and waits for the clients. No request may be in flight. */
    cut: async (nth: number) => {
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

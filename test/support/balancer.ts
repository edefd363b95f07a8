/** A TCP balancer on loopback: the one address behind which several replicas stand, as a Service would be. */
import { connect, createServer, type Socket } from 'node:net';

export interface Balancer {
  readonly port: number;
  /** Ports that new connections go to, in turn. A backend that refuses is passed over. */
  readonly setBackends: (ports: readonly number[]) => void;
  readonly stop: () => Promise<void>;
}

export async function startBalancer(): Promise<Balancer> {
  let backends: readonly number[] = [];
  let next = 0;
  const sockets = new Set<Socket>();

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
    track(client);
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
    stop: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

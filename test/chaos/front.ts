/**
 * The single address of Gatehouse, like a Service: distributes new connections over the ready replicas in turn. It
 * records connections that broke while a request had no response yet: no replica can answer these requests any more.
 */
import { connect, createServer, type Socket } from 'node:net';

/** A connection that broke because its replica stopped. */
export interface Break {
  /** Milliseconds of `performance.now()`. */
  readonly at: number;
  readonly port: number;
  /** Whether the client had sent data without a response. */
  readonly unanswered: () => boolean;
}

export interface Front {
  readonly port: number;
  /**
   * The targets of new connections, in turn. A target that refuses the connection is skipped, as kube-proxy does after
   * the endpoints change.
   */
  readonly setBackends: (ports: readonly number[]) => void;
  readonly breaks: () => readonly Break[];
  readonly stop: () => Promise<void>;
}

/** The minimum size of a request in bytes. A TLS alert is smaller. */
const SMALLEST_REQUEST = 100;
/** How long the client may still send data that it wrote before it saw the end of the connection. */
const CROSSING_MS = 1_000;

export async function startFront(): Promise<Front> {
  let backends: readonly number[] = [];
  let next = 0;
  const breaks: Break[] = [];
  const sockets = new Set<Socket>();
  const track = (socket: Socket) => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
  };

  const forward = (client: Socket, left: number) => {
    const port = backends[next++ % Math.max(backends.length, 1)];
    if (port === undefined || left === 0) {
      client.destroy();
      return;
    }
    const backend = connect(port, '127.0.0.1');
    backend.once('error', () => {
      forward(client, left - 1);
    });
    backend.once('connect', () => {
      backend.removeAllListeners('error');
      track(backend);
      join(client, backend, port, (one) => breaks.push(one));
    });
  };
  const server = createServer({ allowHalfOpen: true }, (client) => {
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
    breaks: () => breaks,
    stop: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function join(client: Socket, backend: Socket, port: number, onBreak: (one: Break) => void): void {
  let [sent, isOver, isWaiting] = [0, false, false];
  client.on('data', (chunk: Buffer) => {
    sent += chunk.length;
    if (isOver) {
      // The data was in flight when the replica closed the connection.
      if (chunk.length >= SMALLEST_REQUEST) isWaiting = true;
      return;
    }
    isWaiting = true;
    if (!backend.write(chunk)) {
      client.pause();
      backend.once('drain', () => client.resume());
    }
  });
  backend.on('data', (chunk: Buffer) => {
    isWaiting = false;
    if (!client.write(chunk)) {
      backend.pause();
      client.once('drain', () => backend.resume());
    }
  });
  client.once('end', () => {
    isOver = true;
    backend.end();
  });
  client.once('close', () => {
    isOver = true;
    backend.destroy();
  });
  const ended = () => {
    if (isOver) return;
    isOver = true;
    if (sent > 0) onBreak({ at: performance.now(), port, unanswered: () => isWaiting });
    client.end();
    setTimeout(() => client.destroy(), CROSSING_MS).unref();
  };
  backend.once('end', ended);
  backend.once('close', ended);
}

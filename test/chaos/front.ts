/**
 * The one address of Gatehouse, as a Service is: new connections go to the replicas that are ready, in turn. It keeps a record of
 * connections that broke while a request on them had no answer yet: those nobody can answer any more.
 */
import { connect, createServer, type Socket } from 'node:net';

/** A connection whose replica went away. */
export interface Break {
  /** Milliseconds of `performance.now()`. */
  readonly at: number;
  readonly port: number;
  /** The client had sent something to which nothing had come back. */
  readonly unanswered: () => boolean;
}

export interface Front {
  readonly port: number;
  /** Where new connections go, in turn. One that refuses is passed over, as it is by whoever watches its endpoints. */
  readonly setBackends: (ports: readonly number[]) => void;
  readonly breaks: () => readonly Break[];
  readonly stop: () => Promise<void>;
}

/** A TLS alert has fewer, a request more. In bytes. */
const SMALLEST_REQUEST = 100;
/** How long a client may still send what it wrote before it heard of the end. */
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
      if (chunk.length >= SMALLEST_REQUEST) isWaiting = true; // it crossed the end on its way
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

import { EventEmitter } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:https';
import { connect, Socket, type AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';

import { limitAge, limitConnections, prepareClosing } from './connections.ts';

const MOST = 3;
const CLIENTS = 200;

test('a connection that was closed does not count, even before its socket has closed', async () => {
  const server = createHttpServer();
  let crowdedOut = 0;
  const { count } = limitConnections(server, MOST, 0, () => (crowdedOut += 1));
  let most = 0;
  server.on('connection', () => (most = Math.max(most, count())));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // it listens on TCP

  let closed = 0;
  const clients = Array.from({ length: CLIENTS }, () =>
    connect(port, '127.0.0.1')
      .on('error', () => undefined)
      .on('close', () => (closed += 1))
      .resume(),
  );
  onTestFinished(() => {
    for (const client of clients) client.destroy();
    server.close();
  });
  await expect.poll(() => closed).toBe(CLIENTS - MOST);

  expect(most).toBe(MOST);
  expect(count()).toBe(MOST);
  expect(crowdedOut).toBe(CLIENTS - MOST);
});

/** A server with open connections. `turn` runs in each turn of the event loop until all are closed. */
async function close(connections: number, turn: () => void): Promise<{ took: number; perTurn: number[] }> {
  const server = createServer();
  server.removeAllListeners('secureConnection'); // the sockets of this test carry no HTTP
  const closeIdle = prepareClosing(server, 60_000, () => true);
  const perTurn: number[] = [];
  let [closed, before] = [0, 0];
  for (let index = 0; index < connections; index += 1) {
    const socket = Object.assign(new EventEmitter(), {
      destroy: () => {
        closed += 1;
      },
    });
    server.emit('secureConnection', socket);
  }
  const nextTurn = () => {
    perTurn.push(closed - before);
    before = closed;
    turn();
    if (closed < connections) setImmediate(nextTurn);
  };
  setImmediate(nextTurn);
  const began = performance.now();
  await closeIdle();
  expect(closed).toBe(connections);
  return { took: performance.now() - began, perTurn };
}

test('slow turns do not delay the end for long: the rest are closed at once', async () => {
  const { took } = await close(1_500, () => {
    const until = performance.now() + 20;
    while (performance.now() < until);
  });
  expect(took).toBeLessThan(10_000); // 1,500 turns take 30 s
});

describe('the age of a connection', () => {
  /** When the connections of a server end, in milliseconds, for these random numbers. */
  const endsOf = (randoms: readonly number[]): readonly number[] => {
    const server = createServer();
    server.removeAllListeners('secureConnection');
    let [now, next] = [0, 0];
    const isOld = limitAge(
      server,
      1_000,
      () => randoms[next++] ?? NaN,
      () => now,
    );
    const sockets = randoms.map(() => new Socket());
    for (const socket of sockets) server.emit('secureConnection', socket);
    return sockets.map((socket) => {
      for (now = 0; !isOld(socket); now += 1);
      return now;
    });
  };

  test('is limited to one to two times the limit, differently for each', () => {
    expect(endsOf([0, 0.5, 0.999])).toEqual([1_000, 1_500, 1_999]);
  });
});

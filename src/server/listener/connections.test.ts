import { EventEmitter, once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:https';
import { connect, Socket, type AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';

import { limitAge, limitConnections, prepareClosing } from '../webhook-server.ts';

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

test('a client with a successful response is kept before a newer one without any; one in a request is not idle', async () => {
  const server = createHttpServer();
  const { isIdle } = limitConnections(server, 2, 0, () => undefined);
  const idle: boolean[] = [];
  server.on('request', ({ socket, url }, response) => {
    idle.push(isIdle(socket));
    response.on('close', () => idle.push(isIdle(socket)));
    response.writeHead(url === '/good' ? 200 : 404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // it listens on TCP
  const closed: string[] = [];
  const open = async (name: string, path?: string) => {
    const client = connect(port, '127.0.0.1').on('close', () => closed.push(name));
    onTestFinished(() => void client.destroy());
    await once(client, 'connect');
    if (path === undefined) return;
    client.write(`GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`);
    await once(client, 'data');
  };
  onTestFinished(() => void server.close());

  await open('good', '/good');
  await open('silent');
  await open('refused', '/elsewhere');
  await expect.poll(() => closed).toEqual(['silent']);
  await open('last', '/good');
  await expect.poll(() => closed).toEqual(['silent', 'refused']);
  expect(idle).toEqual([false, true, false, true, false, true]);
});

function tlsServer() {
  const server = createServer();
  return server.removeAllListeners('secureConnection'); // the sockets of these tests don't carry HTTP
}

test('slow turns do not delay the end for long: the rest are closed together', async () => {
  const server = tlsServer();
  const closeIdle = prepareClosing(server, 60_000, () => true);
  let closed = 0;
  for (let index = 0; index < 1_500; index += 1) {
    const socket = Object.assign(new EventEmitter(), { destroy: () => (closed += 1) });
    server.emit('secureConnection', socket);
  }
  const slowTurn = () => {
    const until = performance.now() + 20;
    while (performance.now() < until);
    if (closed < 1_500) setImmediate(slowTurn);
  };
  setImmediate(slowTurn);
  const began = performance.now();
  await closeIdle();
  expect(closed).toBe(1_500);
  expect(performance.now() - began).toBeLessThan(10_000); // 1,500 turns take 30 s
});

test('the age of a connection is limited to one to two times the limit, differently for each', () => {
  const server = tlsServer();
  const randoms = [0, 0.5, 0.999];
  let now = 0;
  const isOld = limitAge(
    server,
    1_000,
    () => randoms.shift() ?? NaN,
    () => now,
  );
  const sockets = randoms.map(() => new Socket());
  for (const socket of sockets) server.emit('secureConnection', socket);
  const ends = sockets.map((socket) => {
    for (now = 0; !isOld(socket); now += 1);
    return now;
  });
  expect(ends).toEqual([1_000, 1_500, 1_999]);
});

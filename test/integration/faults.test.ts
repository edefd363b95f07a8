/** The fault harness: plain clients and servers of Node check that each fault has its documented effect. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';

import { startTcpFaults, type TcpFaults } from '../support/faults.ts';
import { eventually } from '../support/processes.ts';

/** Echoes all data after a `>`; keeps its side open when the other side ends. */
async function startEcho() {
  const sockets: Socket[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => socket.write(`>${chunk.toString()}`));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return { port: address.port, sockets };
}

async function start(seed?: number) {
  const echo = await startEcho();
  const faults = await startTcpFaults({
    target: { host: '127.0.0.1', port: echo.port },
    ...(seed === undefined ? {} : { seed }),
  });
  onTestFinished(faults.stop);
  return { echo, faults };
}

interface Client {
  readonly socket: Socket;
  readonly heard: () => string;
  readonly ended: () => boolean;
  /** `closed`, or the code of the error that closed it; undefined while it is open. */
  readonly end: () => string | undefined;
}

async function dial(faults: TcpFaults): Promise<Client> {
  const socket = connect({ port: faults.port, host: '127.0.0.1', allowHalfOpen: true });
  onTestFinished(() => void socket.destroy());
  let heard = '';
  let end: string | undefined;
  let ended = false;
  socket.on('data', (chunk) => (heard += chunk.toString()));
  socket.on('end', () => (ended = true));
  socket.on('error', (error: NodeJS.ErrnoException) => (end = error.code));
  socket.on('close', () => (end ??= 'closed'));
  await once(socket, 'connect');
  return { socket, heard: () => heard, ended: () => ended, end: () => end };
}

const hears = (client: Client, text: string) => eventually(text, () => client.heard() === text);

test('data passes in both directions and to the end without a fault', async () => {
  const { echo, faults } = await start();
  const client = await dial(faults);
  client.socket.write('one');
  await hears(client, '>one');
  expect([faults.connections(), faults.accepted()]).toEqual([1, 1]);
  client.socket.end();
  await eventually('the target has received the end', () => echo.sockets[0]?.readableEnded);
  echo.sockets[0]?.end('last');
  await hears(client, '>onelast');
  await eventually('no connection is left', () => faults.connections() === 0);
});

test('a large amount of data that is read slowly arrives completely', async () => {
  const { echo, faults } = await start();
  const client = await dial(faults);
  await eventually('connected', () => echo.sockets.length === 1);
  client.socket.pause();
  const size = 8 * 1024 * 1024;
  echo.sockets[0]?.write(Buffer.alloc(size, 'x'));
  await sleep(50);
  client.socket.resume();
  await eventually('all data arrives', () => client.heard().length === size);
});

test('a delay applies to each chunk, in one direction or both, and keeps the order', async () => {
  const { faults } = await start();
  const client = await dial(faults);
  faults.delay(80, 'target');
  const began = performance.now();
  for (const word of ['a', 'b', 'c']) {
    client.socket.write(word);
    await sleep(5);
  }
  await eventually('all', () => client.heard().replaceAll('>', '') === 'abc');
  expect(performance.now() - began).toBeGreaterThan(75);
  faults.delay({ min: 1, max: 30 });
  for (const digit of '0123456789') {
    client.socket.write(digit);
    await sleep(1);
  }
  await eventually(
    'the chunks arrive in order',
    () => client.heard().replaceAll('>', '') === 'abc0123456789',
  );
});

test('cut: open connections end, new connections end at once, and connections work again after the repair', async () => {
  const { faults } = await start();
  const client = await dial(faults);
  faults.cut();
  await eventually('it ended', client.ended);
  const next = await dial(faults);
  await eventually('it ended at once', next.ended);
  expect(next.heard()).toBe('');
  faults.repair();
  const third = await dial(faults);
  third.socket.write('x');
  await hears(third, '>x');
  expect(faults.accepted()).toBe(3);
});

test('reset: both sides get a RST, and new connections are not affected', async () => {
  const { echo, faults } = await start();
  const client = await dial(faults);
  await eventually('connected', () => echo.sockets.length === 1);
  let atTarget = '';
  echo.sockets[0]?.on('error', (error: NodeJS.ErrnoException) => (atTarget = error.code ?? ''));
  expect(faults.reset()).toBe(1);
  await eventually('the client knows', () => client.end() === 'ECONNRESET');
  await eventually('the target knows', () => atTarget === 'ECONNRESET');
  const next = await dial(faults);
  next.socket.write('x');
  await hears(next, '>x');
});

test('a RST from one side reaches the other', async () => {
  const { echo, faults } = await start();
  const client = await dial(faults);
  await eventually('connected', () => echo.sockets.length === 1);
  echo.sockets[0]?.resetAndDestroy();
  await eventually('the client knows', () => client.end() === 'ECONNRESET');
});

test('half-close: the target receives the end, and its data still arrives', async () => {
  const { echo, faults } = await start();
  const client = await dial(faults);
  await eventually('connected', () => echo.sockets.length === 1);
  expect(faults.halfClose('target')).toBe(1);
  await eventually('the target has received the end', () => echo.sockets[0]?.readableEnded);
  client.socket.write('lost');
  echo.sockets[0]?.write('still here');
  await hears(client, 'still here');
  expect(client.ended()).toBe(false);
});

test('half-close: the client receives the end, and its data still arrives', async () => {
  const { echo, faults } = await start();
  const client = await dial(faults);
  await eventually('connected', () => echo.sockets.length === 1);
  let heard = '';
  echo.sockets[0]?.on('data', (chunk) => (heard += chunk.toString()));
  faults.halfClose('client');
  await eventually('the client has received the end', client.ended);
  client.socket.write('anyone there?');
  await eventually('the target has received the data', () => heard === 'anyone there?');
  expect(client.heard()).toBe('');
});

test('frozen: no data moves, new connections are accepted and silent, and no data is lost after the fault', async () => {
  const { echo, faults } = await start();
  const client = await dial(faults);
  client.socket.write('one');
  await hears(client, '>one');
  faults.freeze();
  client.socket.write('two');
  const next = await dial(faults);
  next.socket.write('new');
  await sleep(100);
  expect([client.heard(), client.end(), next.heard(), next.end()]).toEqual([
    '>one',
    undefined,
    '',
    undefined,
  ]);
  expect(echo.sockets).toHaveLength(1);
  faults.repair();
  await hears(client, '>one>two');
  await hears(next, '>new');
});

test('frozen towards the client: requests arrive, and answers do not', async () => {
  const { echo, faults } = await start();
  const client = await dial(faults);
  await eventually('connected', () => echo.sockets.length === 1);
  let heard = '';
  echo.sockets[0]?.on('data', (chunk) => (heard += chunk.toString()));
  faults.freeze('client');
  client.socket.write('do it');
  await eventually('it arrived', () => heard === 'do it');
  await sleep(50);
  expect(client.heard()).toBe('');
  faults.repair();
  await hears(client, '>do it');
});

test('the same seed affects the same connections', async () => {
  const hit = async (seed: number) => {
    const { faults } = await start(seed);
    const clients: Client[] = [];
    for (let n = 0; n < 12; n += 1) {
      const client = await dial(faults);
      client.socket.write('x');
      await hears(client, '>x');
      clients.push(client);
    }
    const count = faults.reset(0.5);
    await eventually(
      'they ended',
      () => clients.filter((client) => client.end() !== undefined).length === count,
    );
    return clients.map((client) => client.end() ?? 'open');
  };
  const first = await hit(7);
  expect(first).toContain('open');
  expect(first).toContain('ECONNRESET');
  expect(await hit(7)).toEqual(first);
  expect(await hit(8)).not.toEqual(first);
});

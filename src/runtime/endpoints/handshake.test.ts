import { once } from 'node:events';
import { createServer as createPlain, type AddressInfo, type Server, type Socket } from 'node:net';
import { createServer, type TlsOptions } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import * as pki from '../../../test/support/pki/fixtures.ts';
import { askForLeaf, type Answer } from './handshake.ts';

const now = new Date();
const cert = await pki.serverOf(await pki.firstAuthority(now), now);
const { SERVER_NAME, withUnreadableEnd } = pki;

const never = new AbortController().signal;
/** Enough for a busy machine: only a server that never answers uses it up. */
const PATIENCE_MS = 20_000;

async function listening(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

const ask = (port: number, signal = never, timeoutMs = PATIENCE_MS): Promise<Answer> =>
  askForLeaf({ address: '127.0.0.1', port, serverName: SERVER_NAME }, signal, timeoutMs);

const subjectOf = (answer: Answer): string | undefined =>
  answer.kind === 'leaf' ? answer.leaf.subjectAltName : answer.kind;

/** A TLS server, and what it receives from its client. */
async function tlsServer(options: TlsOptions = {}) {
  const seen = { ended: [] as string[], errors: [] as string[], bytes: 0 };
  const server = createServer({ cert: cert.chain, key: cert.keyPair.privateKey, ...options }, (socket) => {
    socket.on('data', (data: Buffer) => (seen.bytes += data.length));
    socket.on('error', ({ message }: Error) => seen.errors.push(message));
    socket.on('end', () => seen.ended.push(String(socket.servername)));
  });
  server.on('tlsClientError', ({ message }) => seen.errors.push(message));
  return { port: await listening(server), seen };
}

/** A server that does not speak TLS. */
const plainServer = (onSocket: (socket: Socket) => void): Promise<number> =>
  listening(
    createPlain((socket) => {
      socket.on('error', () => undefined).resume();
      onSocket(socket);
    }),
  );

test.each<[string, TlsOptions]>([
  ['of TLS 1.3', { minVersion: 'TLSv1.3' }],
  ['of TLS 1.2', { maxVersion: 'TLSv1.2' }],
  ['of TLS 1.0', { minVersion: 'TLSv1', maxVersion: 'TLSv1', ciphers: 'DEFAULT@SECLEVEL=0' }],
  ['that requires a client certificate', { requestCert: true, rejectUnauthorized: true, ca: [] }],
])('the leaf of a server %s', async (_what, options) => {
  const { port } = await tlsServer(options);
  expect(subjectOf(await ask(port))).toBe(`DNS:${SERVER_NAME}`);
});

test('the server sees a complete handshake for the name of the Service, and no data', async () => {
  const { port, seen } = await tlsServer();
  await ask(port);
  await expect.poll(() => seen.ended).toEqual([SERVER_NAME]);
  expect(seen).toMatchObject({ bytes: 0, errors: [] });
});

test('a leaf with an end that is no time counts as none', async () => {
  const { port } = await tlsServer({ cert: withUnreadableEnd(cert.chain) });
  expect(await ask(port)).toEqual({ kind: 'no-tls' });
});

test('a port that nothing listens to is unreachable', async () => {
  const server = createPlain();
  const port = await listening(server);
  server.close();
  await once(server, 'close');
  expect(await ask(port)).toEqual({ kind: 'unreachable' });
});

const RECORD = Buffer.from([0x16, 0x03, 0x03, 0x40, 0x00]);

test.each<[string, (socket: Socket) => void]>([
  ['never answers', () => undefined],
  [
    'sends one byte after the other',
    (socket) => {
      const timer = setInterval(() => socket.write('\x16'), 50);
      socket.on('close', () => clearInterval(timer));
    },
  ],
])('a server that %s costs the leader no more than the timeout', async (_what, onSocket) => {
  const started = performance.now();
  expect(await ask(await plainServer(onSocket), never, 1_000)).toEqual({ kind: 'no-tls' });
  expect(performance.now() - started).toBeLessThan(PATIENCE_MS / 2);
});

test('a server cannot choose parameters of finite-field Diffie-Hellman', async () => {
  const { port } = await tlsServer({ maxVersion: 'TLSv1.2', ciphers: 'DHE', dhparam: 'auto' });
  expect(await ask(port)).toEqual({ kind: 'no-tls' });
});

test('a server that sends empty messages without an end is cut off after some hundred kilobytes', async () => {
  const chunk = Buffer.concat([RECORD, Buffer.alloc(0x4000)]); // hello requests, which OpenSSL skips
  const port = await plainServer((socket) => {
    const fill = () => {
      while (!socket.destroyed && socket.write(chunk));
    };
    socket.on('drain', fill);
    fill();
  });
  const started = performance.now();
  expect(await ask(port)).toEqual({ kind: 'no-tls' });
  expect(performance.now() - started).toBeLessThan(PATIENCE_MS / 2);
});

test('a leader that stops leading waits for no server', async () => {
  const stop = new AbortController();
  const port = await plainServer(() => stop.abort());
  const started = performance.now();
  expect((await ask(port, stop.signal)).kind).not.toBe('leaf');
  expect(performance.now() - started).toBeLessThan(PATIENCE_MS / 2);
});

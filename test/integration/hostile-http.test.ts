/** Malformed HTTP requests, and request smuggling (two requests in one). */
import { gzipSync } from 'node:zlib';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';

import { expectLife, open, say, sharedServer, statusesIn } from '../support/hostile-clients.ts';
import { eventually } from '../support/processes.ts';
import { post, rawPost, reviewOf, VALIDATE } from '../support/webhook-client.ts';
import { governedBy, serversPolicy, startWebhookServer } from '../support/webhook-server.ts';

const server = sharedServer(serversPolicy);

const head = (first: string, ...headers: readonly string[]) =>
  `${[first, 'host: gatehouse', ...headers].join('\r\n')}\r\n\r\n`;
const json = 'content-type: application/json';
const POST = `POST ${VALIDATE} HTTP/1.1`;
const two = 'content-length: 2';
const chunked = 'transfer-encoding: chunked';
const ABSOLUTE = `POST https://kubernetes.default.svc${VALIDATE} HTTP/1.1`;

test.each<[string, string | Buffer, number]>([
  ['headers of 20 KiB', head(POST, `a: ${'x'.repeat(20_000)}`), 431],
  ['a URL with a host, which is read as a path', head(ABSOLUTE, json, two) + '{}', 400],
  ['an upgrade', head('GET / HTTP/1.1', 'connection: upgrade', 'upgrade: websocket'), 404],
  ['no host', `${POST}\r\n\r\n`, 400],
  ['two lengths', head(POST, json, two, 'content-length: 9') + '{}', 400],
  ['a length and chunks', head(POST, json, two, chunked) + '0\r\n\r\n', 400],
  ['an unknown encoding', head(POST, json, 'transfer-encoding: xchunked') + '0\r\n\r\n', 400],
  ['a chunk without a size', head(POST, json, chunked) + 'x\r\n', 400],
  ['a header that continues in the next line', head(POST, 'a: b', ` ${chunked}`, 'content-length: 0 '), 400],
  ['a NUL in a header', head(POST, 'a: b\0c'), 400],
  ['an unknown expectation', head(POST, json, 'expect: miracles', 'content-length: 0'), 417],
])('%s', async (_what, bytes, status) => {
  const before = server.recorded.admissions.length;
  const text = await say(server, bytes, /^HTTP\/1\.1 \d{3} [^]*\r\n\r\n/);
  expect(statusesIn(text)).toEqual([status]);
  expect(server.recorded.admissions).toHaveLength(before);
});

test('CONNECT opens no tunnel', async () => {
  // Node closes connections that request a tunnel.
  expect(statusesIn(await say(server, head('CONNECT kubernetes.default.svc:443 HTTP/1.1')))).toEqual([]);
});

test('data after a refused length is not parsed as a second request', async () => {
  const hidden = rawPost(VALIDATE, reviewOf({ uid: 'hidden' }));
  const smuggler = head(POST, json, 'content-length: 5', chunked);
  const text = await say(server, `${smuggler}0\r\n\r\n${hidden}`);
  expect(statusesIn(text)).toEqual([400]);
  expect(text).not.toContain('hidden');
});

test('a client that expects 100 Continue gets it, and then its answer', async () => {
  const { socket, received } = await open(server);
  const body = reviewOf();
  socket.write(head(POST, json, 'expect: 100-continue', `content-length: ${body.length}`));
  expect(await received(/100/)).toMatch(/^HTTP\/1\.1 100 Continue/);
  socket.write(body);
  expect(statusesIn(await received(/allowed/))).toEqual([100, 200]);
});

test('a compressed gibibyte uses only the memory of its compressed megabyte', async () => {
  const zeros = gzipSync(Buffer.alloc(64 * 2 ** 20));
  const bomb = Buffer.concat(Array.from({ length: 16 }, () => zeros)); // gzip members, concatenated to one file
  const before = process.memoryUsage().rss;
  for (const encoding of ['gzip', 'x-gzip', 'gzip, gzip'])
    expect((await post(server, VALIDATE, bomb, { headers: { 'content-encoding': encoding } })).status).toBe(
      400,
    );
  expect(process.memoryUsage().rss - before).toBeLessThan(256 * 2 ** 20);
});

test('answers to 5,000 pipelined reviews keep their order, and others are served in between', async () => {
  const { socket, received } = await open(server);
  const uids = Array.from({ length: 5_000 }, (_, n) => `ahead-${n}`);
  const last = rawPost('/last', '{}');
  socket.write(uids.map((uid) => rawPost(VALIDATE, reviewOf({ uid }))).join('') + last);
  for (let n = 0; n < 10; n++)
    await eventually('others are served', () => expectLife(server).then(() => true));
  const text = await received(/there is no POST \/last/);
  const statuses = statusesIn(text);
  const answered = [...text.matchAll(/"uid":"ahead-(\d+)"/g)].map(([, n]) => Number(n));
  expect(statuses.length).toBeLessThanOrEqual(5_001); // the server may cut off a client that pipelines too much
  expect(statuses.filter((status) => ![200, 404, 429].includes(status))).toEqual([]);
  expect(answered[0]).toBe(0);
  expect(answered).toEqual(answered.toSorted((one, other) => one - other));
});

test('the server stops working for a client that pipelines requests and never reads', async () => {
  const running = await startWebhookServer(governedBy([serversPolicy]));
  const { socket } = await open(running);
  socket.pause();
  const piece = rawPost(VALIDATE, reviewOf()).repeat(200);
  let sent = 0;
  const flood = async () => {
    while (!socket.destroyed) {
      sent += 200;
      await new Promise((resolve) => socket.write(piece, resolve));
    }
  };
  void flood();
  await eventually('the server has stopped', async () => {
    const before = running.recorded.admissions.length;
    await sleep(1_000);
    return running.recorded.admissions.length === before && before > 0;
  });
  const answered = running.recorded.admissions.length;
  await expectLife(running);
  console.log(`${sent} requests sent, ${answered} answered in total`);
  socket.destroy();
});

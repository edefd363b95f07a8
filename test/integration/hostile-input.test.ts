/** Hostile data that any client in the cluster network can send to the webhook port. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';

import { expectLife, sharedServer } from '../support/hostile-clients.ts';
import { openRaw, post, rawHead, rawPost, reviewOf, VALIDATE } from '../support/webhook-client.ts';
import { ENTRY, governedBy, serversPolicy, startWebhookServer } from '../support/webhook-server.ts';
import { WEBHOOK_LIMITS } from '../../src/server/webhook-server.ts';

const MIB = 1024 * 1024;

const server = sharedServer(serversPolicy);

describe('a body that is not a review is refused with a message', () => {
  const without = (key: string) => reviewOf().replace(`"${key}"`, `"${key}X"`);

  test.each<[string, string, number, RegExp]>([
    ['not JSON', '{"apiVersion":', 400, /not JSON/],
    ['no uid', without('uid'), 400, /request\.uid/],
    ['an unknown version', reviewOf().replace('admission.k8s.io/v1', 'admission.k8s.io/v2'), 400, /v2/],
    [
      'a uid that is only in a prototype',
      without('uid').replace('"request":{', '"request":{"__proto__":{"uid":"u"},'),
      400,
      /request\.uid/,
    ],
  ])('%s', async (_what, body, status, message) => {
    const answer = await post(server, VALIDATE, body);
    expect(answer.status).toBe(status);
    expect(answer.headers['content-type']).toMatch(/^application\/json/);
    const text = JSON.parse(answer.body) as { kind: string; status: string; code: number; message: string };
    expect(text).toMatchObject({ kind: 'Status', status: 'Failure', code: status });
    expect(text.message).toMatch(message);
  });

  test.each<[string, string, string]>([
    ['a byte order mark', `\uFEFF${reviewOf()}`, 'not JSON'],
    ['11,000 levels', reviewOf({ object: 'DEEP' }).replace('"DEEP"', '['.repeat(11_000)), '10,000 levels'],
    [
      'a million values',
      reviewOf({ object: { list: Array.from({ length: 1_000_001 }, () => 0) } }),
      'a million',
    ],
  ])(
    'issue 16: a review with %s is refused under its uid, so that no failurePolicy decides',
    async (_what, body, why) => {
      const answer = await post(server, VALIDATE, body);
      expect(answer.status).toBe(200);
      expect(answer.body).toContain('"uid":"a-uid","allowed":false');
      expect(answer.body).toContain(why);
    },
  );

  test.each([
    ['another content type', { 'content-type': 'text/plain' }, 415],
    ['the content type of a form', { 'content-type': 'application/x-www-form-urlencoded' }, 415],
    ['a charset', { 'content-type': 'application/json; charset=utf-8' }, 200],
  ])('%s', async (_what, headers, status) => {
    expect((await post(server, VALIDATE, reviewOf(), { headers })).status).toBe(status);
  });

  test('a compressed body', async () => {
    const headers = { 'content-encoding': 'gzip' };
    expect((await post(server, VALIDATE, gzipSync(reviewOf()), { headers })).status).toBe(400);
  });

  test.each([
    ['an unknown path', '/', 'POST'],
    ['a path below an entry', `/validate/${ENTRY}/x`, 'POST'],
    ['a path with two dots', '/validate/../mutate/x', 'POST'],
    ['GET', VALIDATE, 'GET'],
  ])('%s', async (_what, path, method) => {
    const answer = await post(server, path, method === 'GET' ? '' : reviewOf(), { method });
    expect(answer.status).toBe(404);
    expect(answer.body).toContain('there is no');
  });

  test.each(['/validate/%zz', `/validate/${'x'.repeat(5_000)}`])('the path %.20s', async (path) => {
    const { status } = await post(server, path, reviewOf());
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).toBeLessThan(500);
  });

  test('an entry without a policy allows nothing', async () => {
    expect((await post(server, '/validate/__proto__', reviewOf())).status).toBe(503);
    expect((await post(server, '/validate/constructor', reviewOf())).status).toBe(503);
  });
});

describe('size', () => {
  /** Resolves with true when `bytes` have left this process, or with false when sending has failed. */
  const written = (socket: TLSSocket, bytes: Buffer) =>
    new Promise<boolean>((resolve) => {
      socket.write(bytes, (error) => {
        resolve(error === undefined || error === null);
      });
    });

  test('21 MiB are refused in a review, and a client that reads only after it has written them all gets the answer', async () => {
    const { socket, received } = await openRaw(server);
    const [start, rest] = [reviewOf().slice(0, -2), Buffer.alloc(256 * 1024, ' ')];
    const bytes = start.length + 4 * 21 * rest.length;
    socket.pause().write(rawHead(VALIDATE, [`content-length: ${bytes}`]) + start);
    for (let piecesLeft = 4 * 21; piecesLeft > 0; piecesLeft--) await written(socket, rest);
    socket.resume();
    const text = await received(/larger than/);
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(text).toContain('"uid":"a-uid","allowed":false');
    expect(text).toContain('the review is larger than 20 MiB: make the object smaller');
    socket.write(rawPost(VALIDATE, reviewOf({ uid: 'second' }))); // the API server keeps the connection
    expect(await received(/second/)).toContain('"uid":"second","allowed":true');
    socket.destroy();
  });

  test('a chunked review over the limit is also refused, and the server does not buffer the rest', async () => {
    const before = server.recorded.rejected.length;
    const [start, rest] = [Buffer.from(reviewOf().slice(0, -2)), Buffer.alloc(MIB, ' ')];
    const chunks = [start, ...Array.from({ length: 100 }, () => rest)];
    const answer = await post(server, VALIDATE, chunks);
    expect(answer.status).toBe(200);
    expect(answer.body).toContain('"uid":"a-uid","allowed":false');
    expect(server.recorded.rejected.slice(before)).toEqual([]);
  });

  test('too much that is no review is an error', async () => {
    const answer = await post(server, VALIDATE, Buffer.alloc(21 * MIB, ' '));
    expect(answer.status).toBe(400);
    expect(answer.body).toContain('larger than 20 MiB');
  });

  test.each([
    ['never stops writing', 1 * MIB],
    ['writes a byte occasionally', 1],
    ['waits', 0],
  ])('a client that announces too much and %s is disconnected', async (_what, bytes) => {
    const limits = { ...WEBHOOK_LIMITS, requestMs: 1_000 };
    const running = await startWebhookServer(governedBy([serversPolicy]), limits);
    const { socket, received } = await openRaw(running);
    socket.write(rawHead(VALIDATE, [`content-length: ${1_000_000 * MIB}`]));
    const piece = Buffer.alloc(bytes, ' ');
    while (bytes > 0 && (await written(socket, piece))) if (bytes === 1) await sleep(20);
    await received(); // the server closes
    await expectLife(running);
  });
});

test('bytes that are not UTF-8 become U+FFFD, as in Go', async () => {
  const bytes = (text: string) => Buffer.from(text, 'latin1');
  const inName = bytes(reviewOf().replace('fra1', 'fra\xff1'));
  const elsewhere = bytes(reviewOf().replace('"jane"', '"jane\xff"'));
  expect((await post(server, VALIDATE, inName)).body).toContain('cannot be the name of a Datacenter');
  expect((await post(server, VALIDATE, elsewhere)).body).toContain('"allowed":true');
  expect((await post(server, VALIDATE, [elsewhere])).body).toContain('"allowed":true');
});

describe('slow clients', () => {
  const limits = { ...WEBHOOK_LIMITS, requestMs: 300 };

  test.each([
    ['headers', 'POST /validate/x HTTP/1.1\r\nhost: x\r\n', 'a: b\r\n'],
    ['its body', rawPost(VALIDATE, ' '.repeat(1_000)).trimEnd() + '\r\n\r\n', ' '],
  ])('a client that never ends %s gets a 408 and is disconnected', async (_what, start, drop) => {
    const running = await startWebhookServer(governedBy([serversPolicy]), limits);
    const { socket, received } = await openRaw(running);
    socket.write(start);
    const dripping = setInterval(() => socket.write(drop), 50);
    const text = await received().finally(() => {
      clearInterval(dripping);
    });
    expect(text).toMatch(/^HTTP\/1\.1 408 /);
    await expectLife(running);
  });
});

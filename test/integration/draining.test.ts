/** Connections end at shutdown, and when they are old: no admission fails because of it, and no client can delay it. */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { describe, expect, test } from 'vitest';

import { ALLOWED, type Decision } from '../../src/admission/review/decision.ts';
import { WEBHOOK_LIMITS } from '../../src/server/webhook-server.ts';
import { eventually } from '../support/processes.ts';
import { keptAlive, MUTATE, openRaw, post, rawPost, reviewOf, VALIDATE } from '../support/webhook-client.ts';
import {
  governedBy,
  runWebhookServer,
  serversPolicy,
  startWebhookServer,
  type Running,
} from '../support/webhook-server.ts';
import { judgeAdmission } from '../support/review-checker.ts';

const conversion = JSON.stringify({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'ConversionReview',
  request: { uid: 'u', desiredAPIVersion: 'infra.example.com/v2', objects: [] },
});

async function slowServer(limits = WEBHOOK_LIMITS) {
  const decision = Promise.withResolvers<Decision>();
  let asked = 0;
  const validate = () => {
    asked += 1;
    return decision.promise;
  };
  const running = await runWebhookServer({ ...governedBy([serversPolicy]), validate }, limits);
  return { running, asked: () => asked, answer: () => decision.resolve(ALLOWED) };
}

async function close({ app }: Running): Promise<number> {
  const started = performance.now();
  await app.close();
  return performance.now() - started;
}

/** In milliseconds: far below the 30 s after which idle connections end, and enough for a busy machine. */
const SOON_MS = 10_000;

const KINDS_OF_ANSWERS = [
  [MUTATE, reviewOf(), 200],
  [VALIDATE, reviewOf(), 200],
  ['/convert', conversion, 200],
  ['/validate/unknown', reviewOf(), 503],
  [VALIDATE, '{', 400],
  ['/nowhere', '{}', 404],
] as const;

const startServer = (lifetimeMs: number, isDraining = false) =>
  startWebhookServer(
    { ...governedBy([serversPolicy]), isDraining: () => isDraining },
    { ...WEBHOOK_LIMITS, lifetimeMs },
  );

test.each([
  ['while draining', () => startServer(WEBHOOK_LIMITS.lifetimeMs, true), 'close'],
  ['an old connection', () => startServer(0), 'close'],
  ['a young connection', () => startServer(WEBHOOK_LIMITS.lifetimeMs), 'keep-alive'],
])(
  '%s: each kind of answer is correct, and closes or keeps its connection',
  async (_what, start, connection) => {
    const running = await start();
    for (const [path, body, status] of KINDS_OF_ANSWERS) {
      const answer = await post(running, path, body, { agent: keptAlive() });
      expect(answer.status).toBe(status);
      // After an invalid body the server cannot find the next request, so it always closes that connection.
      if (status !== 400) expect([path, answer.headers.connection]).toEqual([path, connection]);
    }
  },
);

describe('closing', () => {
  test('waits for the review in flight, and accepts no more', async () => {
    const { running, asked, answer } = await slowServer();
    const agent = keptAlive();
    const underWay = post(running, VALIDATE, reviewOf(), { agent });
    await eventually('the review is being judged', () => asked() === 1);
    const closed = close(running);
    await sleep(100);
    await expect(post(running, VALIDATE, reviewOf())).rejects.toThrow(/ECONNREFUSED/);
    answer();
    const { status, headers } = await underWay;
    expect({ status, connection: headers.connection }).toEqual({ status: 200, connection: 'close' });
    expect(await closed).toBeLessThan(SOON_MS);
  });

  test('a review whose body is still arriving gets its verdict', async () => {
    const running = await runWebhookServer(governedBy([serversPolicy]));
    const { socket, received } = await openRaw(running);
    const bytes = rawPost(MUTATE, reviewOf());
    const routed = new Promise((resolve) => running.app.server.once('request', resolve));
    socket.write(bytes.slice(0, -50));
    await routed;
    const closed = close(running);
    await sleep(50);
    socket.write(bytes.slice(-50));
    const text = await received();
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(text).toMatch(/connection: close/i);
    expect(text).toContain('"allowed":true');
    expect(await closed).toBeLessThan(SOON_MS);
  });

  test('a review that begins on a busy connection does not get a 503', async () => {
    const { running, asked, answer } = await slowServer();
    const { socket, received } = await openRaw(running);
    const second = rawPost(VALIDATE, reviewOf({ uid: 'second' }));
    socket.write(rawPost(MUTATE, reviewOf({ uid: 'first' })));
    await received(/first/);
    socket.write(second.slice(0, 20)); // the server has read some of its headers when it closes
    await sleep(50);
    const closed = close(running);
    await sleep(50);
    socket.write(second.slice(20));
    await eventually('it is being judged', () => asked() === 1);
    answer();
    const text = await received();
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200']);
    expect(text).toContain('"uid":"second","allowed":true');
    expect(await closed).toBeLessThan(SOON_MS);
  });

  test.each(['unused', 'idle'])(
    'a review that has arrived on an %s connection, and is not read yet, gets its verdict',
    async (kind) => {
      const running = await runWebhookServer(governedBy([serversPolicy]));
      const secured = once(running.app.server, 'secureConnection');
      const { socket, received } = await openRaw(running);
      await secured;
      if (kind === 'idle') {
        socket.write(rawPost(VALIDATE, reviewOf({ uid: 'first' })));
        await received(/"uid":"first"/);
      }
      socket.write(rawPost(VALIDATE, reviewOf({ uid: 'last' })));
      const closed = close(running); // in the same turn: the server cannot have read the review
      const text = await received();
      expect(text).toContain('"uid":"last","allowed":true');
      expect(text).toMatch(/connection: close/i);
      expect(await closed).toBeLessThan(SOON_MS);
    },
  );

  test('a review that arrives while other connections are closed gets its verdict', async () => {
    const running = await runWebhookServer(governedBy([serversPolicy]));
    const connections = [];
    for (let index = 0; index < 30; index += 1) {
      const connection = await openRaw(running);
      connection.socket.write(rawPost(VALIDATE, reviewOf({ uid: 'first' })));
      await connection.received(/"uid":"first"/);
      connections.push(connection);
    }
    const firstClosed = connections[0]?.received();
    const closed = close(running);
    await firstClosed;
    const last = connections.at(-1);
    last?.socket.write(rawPost(VALIDATE, reviewOf({ uid: 'last' })));
    expect(await last?.received()).toContain('"uid":"last","allowed":true');
    expect(await closed).toBeLessThan(SOON_MS);
  });

  test('connections without a review do not delay the shutdown', async () => {
    const running = await runWebhookServer(governedBy([serversPolicy]));
    const neverUsed = await openRaw(running); // the API server keeps some unused connections open
    const agent = keptAlive();
    await post(running, VALIDATE, reviewOf(), { agent });
    expect(await close(running)).toBeLessThan(SOON_MS);
    await neverUsed.received(); // the server has closed it
  });

  test('a client that never ends its review delays the shutdown by at most the longest admission timeout', async () => {
    const running = await runWebhookServer(governedBy([serversPolicy]), { ...WEBHOOK_LIMITS, closeMs: 300 });
    const { socket } = await openRaw(running);
    const routed = new Promise((resolve) => running.app.server.once('request', resolve));
    socket.write(rawPost(MUTATE, reviewOf()).slice(0, -50));
    await routed;
    const took = await close(running);
    expect(took).toBeGreaterThan(250);
    expect(took).toBeLessThan(SOON_MS);
  });
});

describe('idle connections', () => {
  test('stay open for longer than the 90 s after which the API server closes them', async () => {
    const { app, ...endpoint } = await startWebhookServer(governedBy([serversPolicy]));
    const { keepAliveTimeout, headersTimeout, requestTimeout } = app.server;
    expect({ keepAliveTimeout, headersTimeout, requestTimeout }).toEqual({
      keepAliveTimeout: 120_000,
      headersTimeout: 120_000, // both timeouts start at the beginning of an unused connection
      requestTimeout: 120_000,
    });
    const answer = await post(endpoint, VALIDATE, reviewOf(), { agent: keptAlive() });
    expect(answer.headers['keep-alive']).toBe('timeout=120');
  });

  test('stay open even if requests must arrive quickly', async () => {
    const limits = { ...WEBHOOK_LIMITS, requestMs: 300 };
    const running = await startWebhookServer(governedBy([serversPolicy]), limits);
    const { socket, received } = await openRaw(running);
    socket.write(rawPost(VALIDATE, reviewOf({ uid: 'first' })));
    await received(/"uid":"first"/);
    await sleep(4 * limits.requestMs);
    socket.write(rawPost(VALIDATE, reviewOf({ uid: 'second' })));
    expect(await received(/"uid":"second"/)).toMatch(/keep-alive: timeout=120/i);
    socket.destroy();
  });
});

describe('old connections', () => {
  test('a connection ends with its first response after the age limit, and no request fails', async () => {
    const running = await startServer(400);
    const ages: number[] = [];
    let connections = 0;
    running.app.server.on('secureConnection', (socket) => {
      const began = performance.now();
      connections += 1;
      socket.on('close', () => ages.push(performance.now() - began));
    });
    const agent = keptAlive(4);
    const until = performance.now() + 3_000;
    let closing = 0;
    const client = async (name: string) => {
      for (let index = 0; performance.now() < until; index += 1) {
        const body = reviewOf({ uid: `${name}-${index}` });
        const answer = await post(running, VALIDATE, body, { agent });
        expect(judgeAdmission('validate', body, answer.body).allowed).toBe(true);
        if (answer.headers.connection === 'close') closing += 1;
      }
    };
    await Promise.all(['a', 'b', 'c', 'd'].map(client));
    expect(closing).toBeGreaterThanOrEqual(4); // each of the four connections at least once
    await eventually('those connections have ended', () => ages.length >= closing);
    expect(Math.min(...ages)).toBeGreaterThanOrEqual(400);
    // Only a response with `connection: close` ends a connection, which then carries nothing more.
    expect(ages).toHaveLength(closing);
    expect(connections - closing).toBeLessThanOrEqual(4);
  });

  test('an old connection that is idle stays open, and answers', async () => {
    const running = await startServer(50);
    const agent = keptAlive(1);
    const first = await post(running, VALIDATE, reviewOf(), { agent });
    expect(first.headers.connection).toBe('keep-alive');
    await sleep(500);
    const [free] = Object.values(agent.freeSockets).flat();
    expect(free?.destroyed).toBe(false);
    const sockets = new Set<unknown>();
    running.app.server.on('request', ({ socket }) => sockets.add(socket.remotePort));
    const second = await post(running, VALIDATE, reviewOf(), { agent });
    expect([second.status, second.headers.connection]).toEqual([200, 'close']);
    expect([...sockets]).toEqual([(free as TLSSocket | undefined)?.localPort]); // agents of HTTPS have TLS sockets
  });
});

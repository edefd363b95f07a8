/** Old connections end, so that new replicas get requests, and no request fails because of it. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { expect, test } from 'vitest';

import { WEBHOOK_LIMITS } from '../../src/server/webhook-server.ts';
import { eventually } from '../support/processes.ts';
import { judgeAdmission } from '../support/review-checker.ts';
import { keptAlive, MUTATE, post, reviewOf, VALIDATE } from '../support/webhook-client.ts';
import { governedBy, serversPolicy, startWebhookServer } from '../support/webhook-server.ts';

const startServer = (lifetimeMs: number) =>
  startWebhookServer(governedBy([serversPolicy]), { ...WEBHOOK_LIMITS, lifetimeMs });

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

test.each([
  [MUTATE, reviewOf(), 200],
  [VALIDATE, reviewOf(), 200],
  ['/validate/unknown', reviewOf(), 503],
  ['/nowhere', '{}', 404],
])('every kind of response ends an old connection: %s', async (path, body, status) => {
  const running = await startServer(0);
  const answer = await post(running, path, body, { agent: keptAlive() });
  expect([answer.status, answer.headers.connection]).toEqual([status, 'close']);
});

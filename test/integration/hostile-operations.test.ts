/** Attacks on the operations port. Probes, scrapes and open status pages must get through. */
import { createConnection, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';

import { createMetrics } from '../../src/server/metrics/metrics.ts';
import { buildOperationsServer, OPERATIONS_LIMITS } from '../../src/server/operations-server.ts';
import { MAX_REQUESTS, MAX_VIEWERS } from '../../src/server/status-page/status-page.ts';
import { connectionsOf } from '../support/hostile-clients.ts';
import { eventually } from '../support/processes.ts';
import { runStatusPage } from '../support/status-scene.ts';

async function start(limits = OPERATIONS_LIMITS, metrics = createMetrics()) {
  const app = buildOperationsServer({ ping: () => undefined }, {}, metrics, undefined, limits);
  onTestFinished(() => app.close());
  await app.listen({ host: '127.0.0.1', port: 0 });
  return app;
}

type App = Awaited<ReturnType<typeof start>>;

async function startPage() {
  const scene = await runStatusPage();
  onTestFinished(() => scene.app.close());
  return scene;
}

const as = (path: string, token: string) =>
  `GET ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n\r\n`;

const portOf = (app: App): number => (app.server.address() as AddressInfo).port;

/** Opens a connection, sends `bytes`, and reads nothing unless `reads`. */
async function open(app: App, bytes: string, reads = true) {
  const socket = createConnection(portOf(app), '127.0.0.1').on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  const heard = { text: '', closed: false };
  socket.once('close', () => (heard.closed = true));
  if (reads) socket.on('data', (chunk: Buffer) => (heard.text += chunk.toString()));
  await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
  socket.write(bytes);
  return { socket, heard };
}

async function openMany(app: App, count: number, bytes: string): Promise<Socket[]> {
  const sockets: Socket[] = [];
  for (let n = 0; n < count; n += 50) {
    const opened = await Promise.all(Array.from({ length: 50 }, () => open(app, bytes)));
    sockets.push(...opened.map(({ socket }) => socket));
  }
  return sockets;
}

/** A probe as the kubelet sends it: over a new connection, with the default timeout of one second. */
async function expectProbe(app: App): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${portOf(app)}/readyz`, {
    headers: { connection: 'close' },
    signal: AbortSignal.timeout(5_000),
  });
  expect(response.status).toBe(200);
}

const FORM = 'content-type: application/x-www-form-urlencoded\r\n';

describe('strangers hold connections', () => {
  test.each([
    ['that say nothing', ''],
    ['with a request that never ends', 'GET /metrics HTTP/1.1\r\nhost: gatehouse\r\nx-padding: '],
    ['between two requests', 'GET /healthz HTTP/1.1\r\nhost: gatehouse\r\n\r\n'],
    ['with a body that never ends', 'POST /metrics HTTP/1.1\r\nhost: x\r\ncontent-length: 9999\r\n\r\n{'],
    [
      'with a form that never ends',
      `POST /status/login HTTP/1.1\r\nhost: x\r\n${FORM}content-length: 9\r\n\r\nt`,
    ],
  ])('%s: their number is limited, and probes are answered', async (_how, bytes) => {
    const { app } = await startPage();
    for (let round = 0; round < 4; round++) {
      await openMany(app, 200, bytes);
      await sleep(100); // the server has read everything
      await expectProbe(app);
      expect(await connectionsOf({ app })).toBeLessThanOrEqual(300);
    }
  });

  test('and open status pages still receive events', async () => {
    const { app } = await startPage();
    const { heard } = await open(app, as('/status/events', 'alice'));
    await openMany(app, 600, '');
    await openMany(app, 600, 'GET /healthz HTTP/1.1\r\nhost: gatehouse\r\n\r\n');
    const before = heard.text.split('event: checked').length;
    await eventually('the next event', () => heard.text.split('event: checked').length > before);
    expect(heard.closed).toBe(false);
  });

  test('with requests that the API server does not answer: more than the limit get a 503, and probes a 200', async () => {
    const { app, url } = await startPage();
    await openMany(app, 400, as('/status', 'stalled'));
    await expectProbe(app);
    const another = await fetch(url, { headers: { authorization: 'Bearer stalled' } });
    expect([another.status, another.headers.get('retry-after')]).toEqual([503, '10']);
    // Otherwise they could occupy every connection.
    expect(OPERATIONS_LIMITS.connections).toBeGreaterThan(2 * MAX_REQUESTS);
    expect(MAX_REQUESTS).toBeGreaterThan(MAX_VIEWERS);
  });
});

test('clients that pipeline requests to the status page and hang up leave room for others', async () => {
  const { app, url } = await startPage();
  // The first stream blocks the connection, so the other responses are never sent.
  for (const others of [
    as('/status', 'bob').repeat(2 * MAX_REQUESTS),
    as('/status/events', 'alice').repeat(80),
  ]) {
    const { socket, heard } = await open(app, as('/status/events', 'alice') + others);
    await eventually('the first stream', () => heard.text.includes('event: checked'));
    socket.destroy();
    await sleep(100);
    const headers = { authorization: 'Bearer alice' };
    expect((await fetch(url, { headers })).status).toBe(200);
    const stream = await fetch(`${url}/events`, { headers });
    expect(stream.status).toBe(200);
    await stream.body?.cancel();
  }
});

describe('a client', () => {
  const hasty = { ...OPERATIONS_LIMITS, requestMs: 300, idleMs: 300, stalledMs: 500 };

  test.each([
    ['headers', 'GET /healthz HTTP/1.1\r\nhost: gatehouse\r\nx-padding: '],
    ['a body', 'POST /healthz HTTP/1.1\r\nhost: gatehouse\r\ncontent-length: 99\r\n\r\n{'],
  ])('that does not finish %s in time is disconnected', async (_what, bytes) => {
    const { heard } = await open(await start(hasty), bytes);
    await eventually('the end', () => heard.closed);
  });

  test('that is idle for too long is disconnected', async () => {
    const { heard } = await open(await start(hasty), 'GET /healthz HTTP/1.1\r\nhost: gatehouse\r\n\r\n');
    await eventually('the end', () => heard.closed);
    expect(heard.text).toMatch(/^HTTP\/1\.1 200 /);
  });

  test('that never reads what it asked for is disconnected, and thousands of requests share one text', async () => {
    let rendered = 0;
    const text = async () => {
      rendered += 1;
      await sleep(10);
      return 'x'.repeat(2 ** 20);
    };
    const app = await start(hasty, { ...createMetrics(), text });
    const pipelined = 'GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(1_000);
    await open(app, pipelined, false);
    await eventually('the end', async () => (await connectionsOf({ app })) === 0);
    expect(rendered).toBeLessThan(20);
  });

  test('that sends a large body to a path that takes none is refused before the body is read', async () => {
    const app = await start();
    const headers = 'host: x\r\ncontent-type: application/json\r\ncontent-length: 900000';
    for (const path of ['/healthz', '/nothing']) {
      const { heard } = await open(app, `POST ${path} HTTP/1.1\r\n${headers}\r\n\r\n{`);
      // Not 408: that would be the answer to a body that does not arrive.
      await eventually('a refusal', () => /^HTTP\/1\.1 4(?!08)\d\d /.test(heard.text));
    }
  });
});

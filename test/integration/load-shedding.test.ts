/** Overload of a server: which clients it tells to retry, and that other clients notice nothing. */
import { once } from 'node:events';
import { describe, expect, onTestFinished, test, vi } from 'vitest';

import { ALLOWED, type Decision } from '../../src/admission/review/decision.ts';
import { loadSheddingOf } from '../support/server/load-shedding.ts';
import type { WebhookServerOptions } from '../../src/server/webhook-server.ts';
import { bytesInUse } from '../support/heap.ts';
import { eventually } from '../support/processes.ts';
import {
  keptAlive,
  openRaw,
  post,
  rawHead,
  rawPost,
  reviewOf,
  serverObject,
} from '../support/webhook-client.ts';
import { startWebhookServer } from '../support/webhook-server.ts';

const MIB = 1024 * 1024;
const WAITING = 250;

type Decide = WebhookServerOptions['validate'];

/** Entries that begin with `slow` answer when the test releases them, all others immediately. */
function slowEntries() {
  const { promise, resolve } = Promise.withResolvers<Decision>();
  const asked: string[] = [];
  const decide: Decide = (entry, _request, signal) => {
    asked.push(entry);
    if (!entry.startsWith('slow')) return ALLOWED;
    const hungUp = once(signal, 'abort').then(() => Promise.reject(new Error('the request has ended')));
    return Promise.race([promise, hungUp]);
  };
  return { deps: { mutate: decide, validate: decide }, asked, release: () => resolve(ALLOWED) };
}

const large = (mebibytes: number) =>
  reviewOf({ object: serverObject({ note: 'x'.repeat(mebibytes * MIB) }) });

describe('at the limit of concurrent reviews', () => {
  async function busy(reviews: number) {
    const slow = slowEntries();
    const running = await startWebhookServer({ ...slow.deps, loadShedding: loadSheddingOf({ reviews }) });
    const ask = (entry: string, webhook = 'validate') => post(running, `/${webhook}/${entry}`, reviewOf());
    const judged = (count: number) => eventually('judged', () => slow.asked.length === count);
    return { running, ask, judged, ...slow };
  }

  test('the next review gets a Status that asks the API server to retry after a second', async () => {
    const { ask, judged, release, running } = await busy(1);
    const first = ask('slow');
    await judged(1);
    for (const webhook of ['mutate', 'validate']) {
      const { status, headers, body } = await ask('other', webhook);
      expect(status).toBe(429);
      expect(headers['retry-after']).toBe('1');
      expect(headers['content-type']).toMatch(/^application\/json/);
      expect(JSON.parse(body)).toMatchObject({ kind: 'Status', status: 'Failure', code: 429 });
    }
    release();
    expect((await first).status).toBe(200);
    expect((await ask('other')).status).toBe(200);
    expect(running.recorded.rejected).toEqual([]); // overload is not an error of the request
    expect(running.recorded.admissions).toHaveLength(2);
  });

  test('a slow entry does not stall another one', async () => {
    const { ask, judged, release } = await busy(12);
    const first = Array.from({ length: 4 }, () => ask('slow'));
    await judged(4);
    expect((await ask('slow')).status).toBe(429);
    expect((await ask('slow', 'mutate')).status).toBe(429);
    for (let turn = 0; turn < 10; turn += 1) expect((await ask('other')).status).toBe(200);
    release();
    expect((await Promise.all(first)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  });

  test('a client that disconnects, or that sends no review, frees its place', async () => {
    const { running, ask, judged } = await busy(1);
    const client = new AbortController();
    const first = post(running, '/validate/slow', reviewOf(), { signal: client.signal });
    await judged(1);
    client.abort();
    await expect(first).rejects.toThrow(/abort/);
    await eventually('a place is free again', async () => (await ask('other')).status === 200);
    for (const body of ['{', '{}']) {
      expect((await post(running, '/validate/other', body)).status).toBe(400);
    }
    const unknown = await post(running, '/validate/other', reviewOf({ operation: 'PATCH' }));
    expect(unknown.body).toContain('"allowed":false');
    expect((await ask('other')).status).toBe(200);
  });

  test('the answer does not wait for the body, and the connection can be used again', async () => {
    const { running, ask, judged, release } = await busy(1);
    const first = ask('slow');
    await judged(1);
    const { socket, received } = await openRaw(running);
    const body = large(1);
    socket.write(rawHead('/validate/other', [`content-length: ${body.length}`]));
    expect(await received(/retry later/)).toMatch(/^HTTP\/1\.1 429 /);
    socket.write(body); // the API server may be sending the body already
    release();
    await first;
    socket.write(rawPost('/validate/other', reviewOf({ uid: 'second' })));
    expect(await received(/second/)).toMatch(/HTTP\/1\.1 200 /);
    socket.destroy();
  });
});

describe('large bodies', () => {
  test('are accepted up to the memory limit, and small bodies do not wait for them', async () => {
    const slow = slowEntries();
    const loadShedding = loadSheddingOf({ bodyBytes: 5 * MIB });
    const running = await startWebhookServer({ ...slow.deps, loadShedding });
    const first = post(running, '/validate/slow', large(2));
    await eventually('the review is being judged', () => slow.asked.length === 1);
    expect((await post(running, '/validate/slow', large(2))).status).toBe(429);
    expect((await post(running, '/validate/other', large(1))).status).toBe(200);
    expect((await post(running, '/validate/tiny', reviewOf().padEnd(10_000))).status).toBe(200);
    slow.release();
    expect((await first).status).toBe(200);
    await eventually('memory is free again', async () => {
      return (await post(running, '/validate/other', large(2))).status === 200;
    });
  });
});

test('a waiting review takes only a few KiB of memory', async () => {
  const slow = slowEntries();
  const running = await startWebhookServer({
    ...slow.deps,
    loadShedding: loadSheddingOf({ reviews: 1_000 }),
  });
  const agent = keptAlive(WAITING);
  const ask = (entry: string) => post(running, `/validate/${entry}`, reviewOf(), { agent });
  const many = (entry: string) => Array.from({ length: WAITING }, () => ask(entry));
  await Promise.all(many('other')); // from here on, all connections exist
  const before = await bytesInUse();
  const waiting = many('slow');
  await eventually('all are judged', () => slow.asked.length === 2 * WAITING);
  const each = ((await bytesInUse()) - before) / WAITING;
  slow.release();
  expect((await Promise.all(waiting)).every(({ status }) => status === 200)).toBe(true);
  expect(each).toBeLessThan(40 * 1024); // client and server share this process
});

test('a full event loop refuses requests before it reads them', async () => {
  let isFull = true;
  const running = await startWebhookServer({
    validate: () => ALLOWED,
    loadShedding: loadSheddingOf({}, { isLoopFull: () => isFull }),
  });
  const { status, body } = await post(running, '/validate/e', reviewOf());
  expect(status).toBe(429);
  expect(body).toContain('this replica is overloaded');
  // An HTTP error that lasts until the webhook's timeout would store the object.
  const open = await post(running, '/validate/ignore-e', reviewOf());
  expect(open.status).toBe(200);
  const retry = { code: 429, reason: 'TooManyRequests', details: { retryAfterSeconds: 1 } };
  expect(JSON.parse(open.body)).toMatchObject({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    response: { uid: 'a-uid', allowed: false, status: retry },
  });
  const forged = await post(running, '/validate/ignore-e', '{"kind":"AdmissionReview"}');
  expect(forged.status).toBe(429);
  isFull = false;
  expect((await post(running, '/validate/e', reviewOf())).status).toBe(200);
});

test.each([
  ['of a full replica that is draining', { isDraining: () => true, isLoopFull: () => true }, '30s'],
  ['at the end of the time', {}, '0.2s'],
])('a refusal %s does not close a connection whose body still arrives', async (_what, state, timeout) => {
  const running = await startWebhookServer({
    validate: () => ALLOWED,
    isDraining: () => false,
    ...state,
    loadShedding: loadSheddingOf({}, state),
  });
  const { socket, received } = await openRaw(running);
  const bytes = rawPost(`/validate/ignore-e?timeout=${timeout}`, large(1));
  socket.write(bytes.slice(0, -50));
  expect(await received(/retry later/)).toContain('"uid":"a-uid","allowed":false');
  socket.write(bytes.slice(-50) + rawPost('/validate/ignore-e', reviewOf({ uid: 'second' })));
  expect(await received(/second/)).toContain('"uid":"second"');
  socket.destroy();
});

test('behind another large object, a review that fails open needs more time', async () => {
  const slow = slowEntries();
  const running = await startWebhookServer({ ...slow.deps, loadShedding: loadSheddingOf() });
  const ask = async (entry: string, timeout: string) => {
    const { body } = await post(running, `/validate/${entry}?timeout=${timeout}`, large(1));
    return body.includes('"allowed":true')
      ? 'allowed'
      : /cannot check another large object in time/.exec(body)?.[0];
  };
  const first = ask('slow', '30s');
  await eventually('judged', () => slow.asked.length === 1);
  expect(await ask('ignore-e', '1s')).toBe('cannot check another large object in time');
  expect(await ask('other', '1s')).toBe('allowed');
  expect(await ask('ignore-e', '10s')).toBe('allowed');
  slow.release();
  expect(await first).toBe('allowed');
  expect(await ask('ignore-e', '1s')).toBe('allowed'); // a single one is always tried
});

test('the work for a large object ends with its time, even if the process paused when it arrived', async () => {
  const signals: AbortSignal[] = [];
  const validate: Decide = (_entry, _request, signal) => {
    signals.push(signal);
    return Promise.withResolvers<Decision>().promise;
  };
  const loadShedding = loadSheddingOf();
  const now = vi.spyOn(performance, 'now');
  onTestFinished(() => now.mockRestore());
  const arrive: typeof loadShedding.arrive = (...request) => {
    const arrival = loadShedding.arrive(...request);
    const resumed = performance.now() + 5_000;
    now.mockImplementationOnce(() => resumed);
    return arrival;
  };
  const running = await startWebhookServer({ validate, loadShedding: { ...loadShedding, arrive } });
  const { body } = await post(running, '/validate/ignore-e?timeout=0.2s', large(1));
  expect(body).toContain('"allowed":false');
  await vi.waitFor(() => expect(signals.map(({ aborted }) => aborted)).toEqual([true]));
});

/**
 * The fault harness between a client and an API server: each fault of requests and watches, and the effects of the
 * seed.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { createServer, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import { createSandboxTls } from '../../src/cli/sandbox/tls.ts';
import {
  apiServerOf,
  chanceFor,
  createFaultPlan,
  faultSeed,
  kubeconfigsThrough,
  runFaultPlan,
  startApiProxy,
  startTcpFaults,
  underSeed,
  type ApiProxy,
  type Fault,
  type WatchFault,
} from '../support/faults.ts';
import { eventually } from '../support/processes.ts';
import { createSeeded } from '../support/seeded.ts';
import { listen } from '../support/tls.ts';

let proxy: ApiProxy;
let upstream: ApiProxy['endpoint'];
/** Requests that the API server carried out, such as `POST /path`. */
let carriedOut: string[] = [];
/** The open watches on the side of the API server. */
let watches: ServerResponse[] = [];
let stop: () => Promise<void>;

beforeAll(async () => {
  const { ca, cert, key } = await createSandboxTls(new Date());
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-faults-'));
  const server = createServer({ cert, key }, (asked, response) => {
    const { method = '', url = '' } = asked;
    carriedOut.push(`${method} ${url}`);
    response.writeHead(200, { 'content-type': 'application/json' });
    if (!url.includes('watch=true')) {
      response.end(JSON.stringify({ metadata: { resourceVersion: '70' } }));
      return;
    }
    response.flushHeaders();
    watches.push(response);
  });
  const port = await listen(server);
  upstream = { server: `https://localhost:${port}`, ca, folder, token: (user) => `token-of-${user}` };
  proxy = await startApiProxy(upstream, 'one');
  stop = async () => {
    await proxy.stop();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    rmSync(folder, { recursive: true });
  };
});

afterAll(async () => {
  await stop();
});

beforeEach(() => {
  proxy.disturb(undefined);
  for (const watch of watches) watch.end();
  carriedOut = [];
  watches = [];
});

const THING = '/apis/example.com/v1/namespaces/shop/things/one';
const WATCH = '/apis/example.com/v1/things?watch=true&resourceVersion=1';

interface Answer {
  readonly code: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** The response, or the code of the error instead. */
async function say(method: string, path = THING, { server, ca } = proxy.endpoint): Promise<Answer | string> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer | string>();
  const call = request(new URL(path, server), { method, ca, agent: false }, (response) => {
    textOf(response).then((body) => {
      resolve({ code: response.statusCode, headers: response.headers, body });
    }, reject);
  });
  call.on('error', (error: NodeJS.ErrnoException) => {
    resolve(error.code ?? error.message);
  });
  call.end();
  return await promise;
}

test.each<[string, Fault, string | object, boolean]>([
  ['409', { kind: 'answer', code: 409, applied: false }, { code: 409 }, false],
  [
    '429 with Retry-After',
    { kind: 'answer', code: 429, applied: false, retryAfterSeconds: 3 },
    { code: 429, headers: { 'retry-after': '3' } },
    false,
  ],
  ['503', { kind: 'answer', code: 503, applied: false }, { code: 503 }, false],
  ['applied and answered 504', { kind: 'answer', code: 504, applied: true }, { code: 504 }, true],
  ['reset', { kind: 'reset', applied: false }, 'ECONNRESET', false],
  ['applied and reset', { kind: 'reset', applied: true }, 'ECONNRESET', true],
])(
  '%s: the client gets the fault, and the API server carries out the request only if the fault says so',
  async (_what, fault, learns, applied) => {
    proxy.disturb(({ write }) => (write?.target === 'things shop/one' ? fault : undefined));
    const answer = await say('PUT');
    if (typeof learns === 'string') expect(answer).toBe(learns);
    else expect(answer).toMatchObject(learns);
    expect(carriedOut).toEqual(applied ? [`PUT ${THING}`] : []);
    if (typeof learns !== 'string')
      expect(answer).toMatchObject({ body: expect.stringContaining('"kind":"Status"') as string });
    expect(await say('GET')).toMatchObject({ code: 200 }); // the fault applies only to writes: reads succeed
  },
);

test('a 429 has no Retry-After unless the fault sets it', async () => {
  proxy.disturb(() => ({ kind: 'answer', code: 429, applied: false }));
  const answer = await say('GET');
  expect(answer).toMatchObject({ code: 429 });
  expect(answer).not.toHaveProperty('headers.retry-after');
});

test('a delay holds a request, and then forwards it', async () => {
  proxy.disturb(() => ({ kind: 'delay', ms: 80 }));
  const began = performance.now();
  expect(await say('PUT')).toMatchObject({ code: 200 });
  expect(performance.now() - began).toBeGreaterThan(75);
});

test('a fault can rewrite an answer', async () => {
  proxy.disturb(() => ({ kind: 'rewrite', change: (body) => body.replace('"70"', '"7"') }));
  expect(await say('GET')).toMatchObject({ code: 200, body: '{"metadata":{"resourceVersion":"7"}}' });
});

test('a kubeconfig can lead through a TCP proxy and the API proxy', async () => {
  const tcp = await startTcpFaults({ target: apiServerOf(proxy.endpoint) });
  const through = { ...proxy.endpoint, server: `https://localhost:${tcp.port}` };
  expect(await say('GET', THING, through)).toMatchObject({ code: 200 });
  expect(kubeconfigsThrough(proxy.endpoint, 'both', tcp.port)('gatehouse')).toContain('through-both');
  tcp.cut();
  expect(await say('GET', THING, through)).toBe('ECONNRESET');
  await tcp.stop();
});

interface Watcher {
  readonly code: () => number | undefined;
  readonly lines: () => readonly string[];
  /** The text after the last complete line. */
  readonly rest: () => string;
  /** `ended` or `broken`; undefined while the watch is open. */
  readonly end: () => string | undefined;
  /** Sends events from the API server. */
  readonly tell: (...events: readonly string[]) => void;
}

async function watch(): Promise<Watcher> {
  let code: number | undefined;
  let heard = '';
  let end: string | undefined;
  const before = watches.length;
  const { server, ca } = proxy.endpoint;
  const call = request(new URL(WATCH, server), { ca, agent: false }, (response) => {
    code = response.statusCode;
    response.setEncoding('utf8');
    response.on('data', (chunk: string) => (heard += chunk));
    response.on('end', () => (end = 'ended'));
    response.on('error', () => (end = 'broken'));
  });
  call.on('error', () => (end ??= 'broken'));
  call.end();
  await eventually('the watch', () => code !== undefined || end !== undefined);
  return {
    code: () => code,
    lines: () => heard.split('\n').slice(0, -1),
    rest: () => heard.split('\n').at(-1) ?? '',
    end: () => end,
    tell: (...events) => {
      for (const event of events) watches[before]?.write(`${event}\n`);
    },
  };
}

const event = (type: string, version: number, name = 'one') =>
  JSON.stringify({ type, object: { metadata: { name, resourceVersion: String(version) } } });
const [A, B, C] = [event('ADDED', 71), event('MODIFIED', 72), event('DELETED', 73)];
const BOOKMARK = event('BOOKMARK', 74);

const hears = (watcher: Watcher, ...lines: readonly string[]) =>
  eventually('the lines', () => JSON.stringify(watcher.lines()) === JSON.stringify(lines)).catch(() => {
    expect(watcher.lines()).toEqual(lines);
  });

test.each<[string, WatchFault, readonly string[], readonly string[]]>([
  ['sent in reverse order', { kind: 'reorder', events: 3 }, [A, B, C], [C, B, A]],
  ['sent in reverse order when no more follow', { kind: 'reorder', events: 5 }, [A, B], [B, A]],
  ['sent without bookmarks', { kind: 'drop-bookmarks' }, [A, BOOKMARK, B], [A, B]],
  ['sent twice', { kind: 'duplicate' }, [A, B], [A, A, B, B]],
  [
    'followed by older events',
    { kind: 'go-back' },
    [A, C, BOOKMARK],
    [A, event('DELETED', 1), C, event('ADDED', 1), BOOKMARK],
  ],
])('events are %s during the fault, and unchanged afterwards', async (_what, fault, told, heard) => {
  const watcher = await watch();
  const harm = proxy.watches.harm(fault);
  watcher.tell(...told);
  await hears(watcher, ...heard);
  expect(harm.met()).toBeGreaterThanOrEqual(fault.kind === 'reorder' && fault.events === 5 ? 0 : 1);
  harm.end();
  watcher.tell(A, BOOKMARK);
  await hears(watcher, ...heard, A, BOOKMARK);
});

test('a fault affects only watches that match', async () => {
  const watcher = await watch();
  const harm = proxy.watches.harm({ kind: 'duplicate' }, (path) => path.includes('/others?'));
  watcher.tell(A);
  await hears(watcher, A);
  expect(harm.met()).toBe(0);
  harm.end();
});

test('a watch is cut in the middle of a line', async () => {
  const watcher = await watch();
  watcher.tell(A);
  await hears(watcher, A);
  const harm = proxy.watches.harm({ kind: 'cut-in-line' });
  watcher.tell(B, C);
  await eventually('it broke', () => watcher.end() === 'broken');
  expect(watcher.lines()).toEqual([A]);
  expect(watcher.rest().length).toBeGreaterThan(0);
  expect(B.startsWith(watcher.rest())).toBe(true);
  harm.end();
});

test('an event for a watch that has ended is dropped', async () => {
  const watcher = await watch();
  const kinds = ['gone', 'error-event', 'cut-in-line'] as const;
  const harms = kinds.map((kind) => proxy.watches.harm({ kind }));
  watcher.tell(A);
  await eventually('it ended', () => watcher.end() === 'ended');
  expect(watcher.lines()).toEqual([]);
  for (const harm of harms) harm.end();
});

test('gone: open watches end, and new watches get a 410', async () => {
  const watcher = await watch();
  const harm = proxy.watches.harm({ kind: 'gone' });
  await eventually('it ended', () => watcher.end() === 'ended');
  expect((await watch()).code()).toBe(410);
  expect(harm.met()).toBe(1);
  harm.end();
  expect((await watch()).code()).toBe(200);
});

test('an ERROR event 410 ends open and new watches', async () => {
  const open = await watch();
  const harm = proxy.watches.harm({ kind: 'error-event' });
  for (const watcher of [open, await watch()]) {
    await eventually('it ended', () => watcher.end() === 'ended');
    expect(watcher.lines().map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { type: 'ERROR', object: { code: 410, reason: 'Expired' } },
    ]);
  }
  expect(harm.met()).toBe(2);
  harm.end();
});

test('open and new watches break', async () => {
  const open = await watch();
  const harm = proxy.watches.harm({ kind: 'break' });
  await eventually('it broke', () => open.end() === 'broken');
  const next = await watch();
  await eventually('it broke too', () => next.end() === 'broken');
  harm.end();
  expect((await watch()).end()).toBeUndefined();
});

test('a frozen watch is silent and open, and sends all events when the fault ends', async () => {
  const watcher = await watch();
  const harm = proxy.watches.harm({ kind: 'freeze' });
  watcher.tell(A, B);
  await sleep(80);
  expect([watcher.lines(), watcher.end()]).toEqual([[], undefined]);
  harm.end();
  await hears(watcher, A, B);
});

test('a seed determines a plan: each fault occurs before any is repeated, and none lasts beyond the end', () => {
  const names = ['a', 'b', 'c'] as const;
  const plan = createFaultPlan(5, { names, forMs: 20_000 });
  expect(createFaultPlan(5, { names, forMs: 20_000 })).toEqual(plan);
  expect(createFaultPlan(6, { names, forMs: 20_000 })).not.toEqual(plan);
  expect(plan.length).toBeGreaterThan(9);
  for (let at = 0; at + 3 <= plan.length; at += 3)
    expect(
      plan
        .slice(at, at + 3)
        .map(({ name }) => name)
        .toSorted(),
    ).toEqual(names);
  for (const { atMs, lastsMs } of plan) {
    expect(atMs + lastsMs).toBeLessThanOrEqual(20_000);
    expect(lastsMs).toBeGreaterThanOrEqual(200);
  }
});

test('a plan that has run has ended all its faults', async () => {
  const plan = createFaultPlan(3, { names: ['x', 'y'], forMs: 200, lastsMs: [10, 40], gapMs: 30 });
  const now = new Set<number>();
  let begun = 0;
  const begin = () => {
    const id = (begun += 1);
    now.add(id);
    return () => now.delete(id);
  };
  await runFaultPlan(plan, { x: begin, y: begin });
  expect(begun).toBe(plan.length);
  expect(now.size).toBe(0);
});

test('a failed run reports its seed, which the environment can set', async () => {
  expect(faultSeed({ GATEHOUSE_FAULT_SEED: '77' })).toBe(77);
  expect(faultSeed({})).not.toBe(faultSeed({}));
  expect(() => faultSeed({ GATEHOUSE_FAULT_SEED: 'x' })).toThrow('whole number');
  await expect(underSeed(77, () => Promise.reject(new Error('broke')))).rejects.toThrow(
    'with GATEHOUSE_FAULT_SEED=77: broke',
  );
  expect(await underSeed(77, () => Promise.resolve('fine'))).toBe('fine');
});

test('random choices for one subject do not depend on those for others', () => {
  const [alone, among] = [chanceFor(9), chanceFor(9)];
  const first = [alone('a'), alone('a')].map((chance) => chance.next());
  const mixed = ['b', 'a', 'b', 'c', 'a'].map((name) => [name, among(name).next()] as const);
  expect(mixed.filter(([name]) => name === 'a').map(([, next]) => next)).toEqual(first);
  expect(first[0]).not.toBe(first[1]);
  expect(createSeeded(1).next()).toBe(createSeeded(1).next());
});

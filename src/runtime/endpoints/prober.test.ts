import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createCountedClock } from '../../../test/support/kube/counted-clock.ts';
import type { Answer, Question } from './handshake.ts';
import { createProber, startEndpointProbes } from './prober.ts';
import { silent } from '../../../test/support/runtime/fixtures.ts';
import { createListedContext } from '../../../test/support/runtime/listed-rest.ts';
import { createServedCerts, type Served } from './served-certs.ts';
import type { Endpoint } from './slices.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Every handshake takes `handshakeMs`, and every server presents the leaf A. */
function scene(handshakeMs: number) {
  const stop = new AbortController();
  const asked: { readonly at: number; readonly namespace: string; readonly address: string }[] = [];
  let [open, most] = [0, 0];
  const mostIn = new Map<string, number>();
  const openIn = new Map<string, number>();
  const ask = async ({ address, serverName }: Question): Promise<Answer> => {
    const namespace = serverName.split('.')[1] ?? '';
    asked.push({ at: performance.now(), namespace, address });
    openIn.set(namespace, (openIn.get(namespace) ?? 0) + 1);
    most = Math.max(most, ++open);
    mostIn.set(namespace, Math.max(mostIn.get(namespace) ?? 0, openIn.get(namespace) ?? 0));
    await new Promise((resolve) => setTimeout(resolve, handshakeMs));
    open -= 1;
    openIn.set(namespace, (openIn.get(namespace) ?? 1) - 1);
    return { kind: 'unreachable' };
  };
  const { clock, pending } = createCountedClock();
  const served = createServedCerts(120_000);
  const read = (_answer: Answer, serverName: string): Served => {
    if (serverName.includes('.broken.')) throw new RangeError('Invalid time value');
    return { kind: 'leaf', leaf: 'A', notAfter: new Date(0), isFor: true };
  };
  const prober = createProber({ served, ask, read, onAnswer: () => undefined, clock }, stop.signal);
  const add = (namespace: string, count: number, leaf = 'A') =>
    prober.update(`${namespace}/db`, {
      namespace,
      name: 'db',
      uid: 'u',
      secretName: 'db-tls',
      leaf,
      serverName: `db.${namespace}.svc`,
      endpoints: Array.from({ length: count }, (_, number): Endpoint => ({
        pod: `db-${number}`,
        address: `10.0.${number >> 8}.${number & 255}`,
        port: 8443,
        portId: '8443',
        isTls: true,
      })),
    });
  return { prober, add, asked, counts: served.counts, mostIn, most: () => most, pending, stop };
}

test('300 endpoints are asked within 60 s of their renewal, at a rate of 5 per second after a burst of 100', async () => {
  const { add, asked } = scene(20);
  const all = (leaf: string) => {
    for (let number = 0; number < 30; number += 1) add(`n-${number}`, 10, leaf);
  };
  all('A');
  await vi.advanceTimersByTimeAsync(90_000);
  asked.splice(0);
  all('B');
  await vi.advanceTimersByTimeAsync(60_000);
  expect(new Set(asked.map(({ namespace, address }) => `${namespace} ${address}`)).size).toBe(300);
  const last = Math.max(...asked.slice(0, 300).map(({ at }) => at)) - Math.min(...asked.map(({ at }) => at));
  expect(last).toBeGreaterThan(35_000);
  expect(last).toBeLessThan(50_000);
});

test('an answer that cannot be read counts as none, and the other servers are asked', async () => {
  const { add, counts, most } = scene(20);
  add('broken', 30);
  await vi.advanceTimersByTimeAsync(3_000);
  expect(counts()).toMatchObject({ unreachable: 30 });
  add('shop', 30);
  await vi.advanceTimersByTimeAsync(3_000);
  expect(counts()).toMatchObject({ unreachable: 30, current: 30 });
  expect(most()).toBe(10);
});

test('at most 20 connections are open at a time, and 10 of one namespace', async () => {
  const { add, most, mostIn } = scene(5_000);
  add('hostile', 1_000);
  await vi.advanceTimersByTimeAsync(30_000);
  expect(most()).toBe(10);
  add('shop', 100);
  await vi.advanceTimersByTimeAsync(30_000);
  expect([most(), ...mostIn.values()]).toEqual([20, 10, 10]);
});

test('a namespace with thousands of endpoints does not delay another one', async () => {
  const { add, asked } = scene(5_000);
  add('hostile', 10_000);
  await vi.advanceTimersByTimeAsync(60_000);
  const before = performance.now();
  add('shop', 10);
  await vi.advanceTimersByTimeAsync(30_000);
  const own = asked.filter(({ namespace }) => namespace === 'shop');
  expect(own).toHaveLength(10);
  expect((own.at(-1)?.at ?? 0) - before).toBeLessThan(10_000);
});

test('renewals go before the routine, and do not stop it', async () => {
  const { add, asked } = scene(1);
  add('old', 100, 'B'); // stale, so asked again after two minutes
  await vi.advanceTimersByTimeAsync(115_000);
  add('renewed', 600, 'B');
  const before = asked.length;
  await vi.advanceTimersByTimeAsync(60_000);
  const counts = Map.groupBy(asked.slice(before), ({ namespace }) => namespace);
  expect(counts.get('renewed')?.length).toBeGreaterThan((counts.get('old')?.length ?? 0) * 2);
  expect(counts.get('old')?.length).toBeGreaterThan(10);
});

test('nothing is asked about a Service that is removed, nor after the end', async () => {
  const { add, asked, prober, pending, stop } = scene(20);
  add('shop', 100);
  await vi.advanceTimersByTimeAsync(2_010);
  prober.remove('shop/db');
  const before = asked.length;
  expect(before).toBe(10);
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(asked).toHaveLength(before);
  add('shop', 1);
  stop.abort();
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(asked.length).toBeLessThanOrEqual(before + 1);
  expect(pending()).toBe(0);
});

test.each([
  ['the limit of 0 endpoints', { endpointProbes: { maxEndpoints: 0, reloadMs: 1 } }, false],
  ['--without certificates', { without: ['certificates'] }, false],
  ['the default', {}, true],
])('with %s, the leader reads EndpointSlices only if it asks endpoints', async (_what, change, reads) => {
  const { context, listed, signal } = createListedContext();
  const nothing = { service: () => undefined, serviceKeys: () => [], secret: () => undefined };
  const stores = { ...nothing, whenSynced: () => Promise.resolve() };
  const config = { ...context.config, ...change } as typeof context.config;
  startEndpointProbes({ ...context, config }, stores as never, { claimOf: () => undefined }, signal);
  await vi.advanceTimersByTimeAsync(1);
  expect(listed).toEqual(reads ? ['/apis/discovery.k8s.io/v1/endpointslices'] : []);
});

test('the leader logs why it asks no endpoint', async () => {
  const error = vi.fn();
  const { context, signal } = createListedContext({ log: { ...silent, error } });
  const err = new Error('the Services cannot be listed');
  const stores = { whenSynced: () => Promise.reject(err) };
  startEndpointProbes(context, stores as never, { claimOf: () => undefined }, signal);
  await vi.advanceTimersByTimeAsync(1);
  expect(error.mock.calls).toEqual([[{ err }, 'no server is asked for its certificate']]);
});

import { expect, test } from 'vitest';
import { createServedCerts, type Served } from './served-certs.ts';
import type { Endpoint } from './slices.ts';

const RELOAD_MS = 120_000;
const HOUR = 3_600_000;
const NOT_AFTER = new Date('2026-12-01T00:00:00Z');

const endpoint = (number: number, change: Partial<Endpoint> = {}): Endpoint => ({
  pod: `db-${number}`,
  address: `10.0.0.${number}`,
  port: 8443,
  portId: 'https:8443',
  isTls: false,
  ...change,
});

const service = (leaf: string, ...endpoints: readonly Endpoint[]) => ({
  namespace: 'shop',
  name: 'db',
  uid: 'u',
  secretName: 'db-tls',
  leaf,
  serverName: 'db.shop.svc',
  endpoints,
});

const leaf = (name: string, isFor = true) =>
  ({ kind: 'leaf', leaf: name, notAfter: NOT_AFTER, isFor }) as const;

/** One Service with one endpoint, which presents `first`. */
function scene(first: Served = leaf('A'), change: Partial<Endpoint> = {}) {
  const served = createServedCerts(RELOAD_MS);
  const { added } = served.update('shop/db', service('A', endpoint(0, change)), 0);
  const [key = ''] = added;
  const answer = (what: Served, now: number) => served.record(key, what, now);
  return { served, key, answer, first: answer(first, 0) };
}

test.each<[string, Served, Partial<Endpoint>, string]>([
  ['the leaf of the Secret', leaf('A'), {}, 'current'],
  ['another leaf for the same names', leaf('Z'), {}, 'stale'],
  ['a leaf for other names', leaf('Z', false), {}, 'foreign'],
  ['no connection', { kind: 'unreachable' }, {}, 'unreachable'],
  ['a port without TLS', { kind: 'no-tls' }, {}, 'plain'],
  ['no handshake from a port that has TLS', { kind: 'no-tls' }, { isTls: true }, 'unreachable'],
])('%s is %s', (_what, first, change, state) => {
  expect(scene(first, change).first?.state).toBe(state);
});

test('a Service has room for as many endpoints as others leave, in its namespace and in total', () => {
  const { served } = scene();
  served.update('shop/web', { ...service('W', endpoint(1), endpoint(2)), name: 'web' }, 0);
  served.update('else/db', { ...service('E', endpoint(3)), namespace: 'else' }, 0);
  expect(served.roomFor('shop/db', 'shop', 5)).toBe(3);
  served.update('shop/web', { ...service('W', endpoint(2)), name: 'web' }, 0);
  expect(served.roomFor('shop/new', 'shop', 5)).toBe(3);
  expect(served.roomFor('shop/new', 'shop', 1)).toBe(0);
  served.remove('shop/web');
  served.remove('shop/db');
  expect(served.roomFor('shop/new', 'shop', 5)).toBe(5);
  for (const name of 'abcdefghijk')
    served.update(`${name}/db`, { ...service(name, endpoint(4)), namespace: name }, 0);
  expect(served.roomFor('shop/new', 'shop', 1)).toBe(0); // 12 of 10 are in use
});

test('a port that has answered with TLS once is not plain when it does not answer', () => {
  expect(scene().answer({ kind: 'no-tls' }, 1)?.state).toBe('unreachable');
});

test('a renewal makes every server stale until it is seen with the new leaf', () => {
  const { served, key, answer } = scene();
  const changes = served.update('shop/db', service('B', endpoint(0)), 1_000);
  expect(changes).toEqual({ added: [], renewed: [key], gone: [] });
  expect(served.counts()).toMatchObject({ current: 0, stale: 1 });
  expect(answer(leaf('B'), 2_000)).toMatchObject({ state: 'current', isChanged: true, askAt: 2_000 + HOUR });
  expect(served.counts()).toMatchObject({ current: 1, stale: 0 });
});

test('a server is reported only when it has had time to reload and was asked again', () => {
  const { served, answer } = scene();
  served.update('shop/db', service('B', endpoint(0)), 1_000);
  expect(answer(leaf('A'), 2_000)?.askAt).toBe(1_000 + RELOAD_MS);
  expect(served.staleIn('shop/db')).toBeUndefined();
  const late = 1_000 + RELOAD_MS;
  expect(answer(leaf('A'), late)).toMatchObject({ askAt: late + RELOAD_MS, isChanged: true });
  expect(answer(leaf('A'), late)?.isChanged).toBe(false);
  const stale = { pod: 'db-0', address: '10.0.0.0', since: 1_000, notAfter: NOT_AFTER };
  expect(served.staleIn('shop/db')?.servers).toEqual([stale]);
  expect(served.stale().map(({ service: { name } }) => name)).toEqual(['db']);
  answer(leaf('B'), late + 1);
  expect(served.stale()).toEqual([]);
});

test('a server that reloads has time again when the leaf that it loaded is replaced', () => {
  const { served, answer } = scene();
  served.update('shop/db', service('B', endpoint(0)), 1_000);
  answer(leaf('A'), 11_000);
  served.update('shop/db', service('C', endpoint(0)), 120_000);
  expect(answer(leaf('B'), 121_500)).toMatchObject({ state: 'stale', askAt: 120_000 + RELOAD_MS });
  expect(served.stale()).toEqual([]);
  answer(leaf('B'), 120_000 + RELOAD_MS);
  expect(served.stale()).toMatchObject([{ servers: [{ since: 120_000 }] }]);
  served.update('shop/db', service('D', endpoint(0)), 300_000); // the server has reloaded late
  answer(leaf('C'), 310_000);
  expect(served.stale()).toEqual([]);
});

test('renewals one after the other do not hide a server that does not reload', () => {
  const { served, answer } = scene();
  for (let minute = 1; minute <= 30; minute += 1) {
    served.update('shop/db', service(`leaf ${minute}`, endpoint(0)), minute * 60_000);
    answer(leaf('A'), minute * 60_000 + 10_000);
    expect(served.stale()).toHaveLength(minute < 3 ? 0 : 1);
  }
});

test('an endpoint that cannot be reached is asked less and less often, at least hourly', () => {
  const { answer } = scene();
  const waits = Array.from({ length: 11 }, () => answer({ kind: 'unreachable' }, 0)?.askAt ?? 0);
  expect(waits.map((ms) => ms / 1_000)).toEqual([10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600]);
});

test('pods that are gone are forgotten, and new pods are asked', () => {
  const { served, key, answer } = scene();
  const next = served.update('shop/db', service('A', endpoint(1)), 1);
  expect(next.gone).toEqual([key]);
  expect(next.added).toHaveLength(1);
  expect(answer(leaf('A'), 2)).toBeUndefined();
  expect(served.question(key)).toBeUndefined();
  expect(served.remove('shop/db')).toEqual(next.added);
  expect(Object.values(served.counts()).every((count) => count === 0)).toBe(true);
});

test.each([
  ['a recreated pod with the same name and another address is asked', { address: '10.0.9.9' }, 1],
  ['the same endpoints and leaf cause no handshake', {}, 0],
])('%s', (_what, change, count) => {
  const { added, ...rest } = scene().served.update('shop/db', service('A', endpoint(0, change)), 1);
  expect(added).toHaveLength(count);
  expect(rest.renewed).toEqual([]);
  expect(rest.gone).toHaveLength(count);
});

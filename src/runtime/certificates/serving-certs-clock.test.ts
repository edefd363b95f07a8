/** C1 and C3: clocks that disagree or jump, and thousands of certs that become due at once. */
import { beforeEach, describe, expect, test } from 'vitest';

import { after, DAY, HOUR, MINUTE } from '../../pki/durations.ts';
import { servingCertRequest } from '../../pki/serving-certs/request.ts';
import { firstAuthority, prepared, rotated } from '../../../test/support/pki/fixtures.ts';
import {
  createWorld,
  type Change,
  serviceNamed,
  type ServingCertsWorld,
} from '../../../test/support/runtime/serving-certs.ts';

const start = new Date('2026-11-21T12:00:00Z');
const authority = await firstAuthority(after(start, -60 * DAY));
let world: ServingCertsWorld;

beforeEach(() => {
  world = createWorld(authority, start);
  world.add(serviceNamed('db'));
});

const disagreeing = {
  get serverClock() {
    return { now: () => world.now, skewMs: () => 9 * HOUR };
  },
} satisfies Change;
const holding = { pacer: { take: () => false, forget: () => undefined } } satisfies Change;

describe('C1: while the clocks disagree', () => {
  test.each([-400, -30, 90, 400])(
    'a working cert is not replaced, although the local clock jumped by %i days',
    async (days) => {
      await world.run('db');
      const before = world.secret();
      world.now = after(start, days * DAY);
      const result = await world.run('db', disagreeing);
      expect(world.secret()).toEqual(before);
      expect(result).toMatchObject({ kind: 'requeue' });
      if (result.kind === 'requeue') expect(result.at.getTime()).toBeGreaterThan(world.now.getTime());
      expect(world.events.reasons()).toEqual(['Issued']); // no Event per Service, because there may be thousands
    },
  );
});

test.each([
  ['C1: disagreeing clocks do not delay', disagreeing],
  ['C3: certs of others do not delay', holding],
])('%s a first cert and the repair of a broken one, because nothing can be lost', async (_what, change) => {
  await world.run('db', change);
  expect(world.observed).toEqual(['issued Missing']);
  world.secrets.patch('prod/db-tls', { data: { 'tls.key': '' } });
  await world.run('db', change);
  world.secrets.patch('prod/db-tls', { data: null });
  await world.run('db', change);
  expect(world.observed).toEqual(['issued Missing', 'issued Unreadable', 'issued Missing']);
});

test.each([-10, 10])('C1: a clock that is %i minutes off causes no work', async (minutes) => {
  await world.run('db');
  world.now = after(start, minutes * MINUTE);
  await world.run('db');
  expect(world.secrets.writes()).toBe(1);
});

test('C1: a clock before the start of the authority issues nothing, and the Service is checked again later', async () => {
  await world.run('db');
  world.now = after(start, -400 * DAY);
  const result = await world.run('db');
  expect(world.secrets.writes()).toBe(1);
  if (result.kind === 'requeue') expect(result.at.getTime()).toBeGreaterThan(world.now.getTime());
});

describe('C3: while other certs are issued,', () => {
  const asking = (annotations: Record<string, string>) => {
    world.add(serviceNamed('db', annotations));
    return Promise.resolve();
  };

  test.each<[string, () => Promise<void>]>([
    ['a new signer', async () => void (world.authority = await rotated(authority, start))],
    ['a new CA bundle', async () => void (world.authority = await prepared(authority, start))],
    [
      'another cluster domain',
      () => Promise.resolve(void (world.rules = { ...world.rules, clusterDomain: 'corp.example' })),
    ],
    ['another algorithm', () => asking({ 'gatehouse.dev/serving-cert-key-algorithm': 'ECDSA-P384' })],
    ['a shorter duration', () => asking({ 'gatehouse.dev/serving-cert-duration': '7d' })],
    ['a longer duration', () => asking({ 'gatehouse.dev/serving-cert-duration': '180d' })],
    ['a due renewal', () => Promise.resolve(void (world.now = after(start, 80 * DAY)))],
  ])('%s waits, without a request to the API server', async (_what, change) => {
    await world.run('db');
    const before = world.secret();
    await change();
    world.calls.reads = 0;
    expect(await world.run('db', holding)).toEqual({ kind: 'await-change' });
    expect(world.secret()).toEqual(before);
    expect(world.calls.reads).toBe(0);
    await world.run('db');
    expect(world.secrets.writes()).toBe(2);
  });

  test('the cert of Gatehouse itself goes first', async () => {
    await world.run('db');
    world.authority = await rotated(authority, start);
    const own: Change = {
      ...holding,
      requests: {
        request: (service, purpose) => {
          const request = servingCertRequest(service, world.rules, purpose);
          return request.kind === 'request' ? { ...request, own: true } : request;
        },
      },
    };
    await world.run('db', own);
    expect(world.observed).toEqual(['issued Missing', 'issued SignerChanged']);
  });
});

test('each cert costs at most two requests: one to create it, or a read and a write later', async () => {
  await world.run('db');
  expect([world.secrets.writes(), world.calls.reads]).toEqual([1, 0]);
  world.authority = await rotated(authority, start);
  await world.run('db');
  expect([world.secrets.writes(), world.calls.reads]).toEqual([2, 1]);
});

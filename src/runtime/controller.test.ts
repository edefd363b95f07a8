import { expect, test } from 'vitest';

import { AWAIT_CHANGE, requeueIn, inLocalTime } from './controller.ts';

const MINUTE = 60_000;
const server = new Date('2026-01-01T00:00:00Z');
const { signal } = new AbortController();

test.each([
  ['ahead', 10 * MINUTE],
  ['behind', -10 * MINUTE],
  ['correct', 0],
])('a delay of a second stays a second when the local clock is %s', async (_how, skewMs) => {
  const local = server.getTime() + skewMs;
  const reconcile = inLocalTime(
    () => Promise.resolve(requeueIn(1_000, server)),
    () => server,
    () => local,
  );
  expect(await reconcile('key', signal)).toEqual({ kind: 'requeue', at: new Date(local + 1_000) });
});

test('a result without a delay stays unchanged', async () => {
  const reconcile = inLocalTime(
    () => Promise.resolve(AWAIT_CHANGE),
    () => server,
    () => 0,
  );
  expect(await reconcile('key', signal)).toEqual(AWAIT_CHANGE);
});

import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { expect, test, vi } from 'vitest';

import { streamEvents, createSharedView } from './status-page.ts';

test('a viewer who disconnects before the first event does not use a slot', async () => {
  const response = new ServerResponse(new IncomingMessage(new Socket()));
  response.destroy();
  const write = vi.spyOn(response, 'write');
  const read = () => Promise.reject(new Error('unexpected call'));
  await streamEvents(response, read, '', 1, new AbortController().signal);
  expect(write).not.toHaveBeenCalled();
});

function viewed(tookMs: number) {
  let now = 1_000_000;
  let reads = 0;
  const read = () => {
    reads += 1;
    now += tookMs;
    return Promise.resolve(reads);
  };
  const view = createSharedView(read, 1_000, () => now);
  return { view, pass: (ms: number) => (now += ms) };
}

test.each([
  [0, 1_000],
  [3_000, 27_000],
])('a view that takes %i ms is shared by all viewers for %i ms', async (tookMs, sharedMs) => {
  const { view, pass } = viewed(tookMs);
  expect(await Promise.all([view(), view(), view()])).toEqual([1, 1, 1]);
  pass(sharedMs - 1);
  expect(await view()).toBe(1);
  pass(1);
  expect(await view()).toBe(2);
});

test('a failed view is not shared', async () => {
  let reads = 0;
  const read = () => ((reads += 1) === 1 ? Promise.reject(new Error('no')) : Promise.resolve('seen'));
  const view = createSharedView(read, 1_000, () => 0);
  await expect(view()).rejects.toThrow('no');
  expect(await view()).toBe('seen');
});

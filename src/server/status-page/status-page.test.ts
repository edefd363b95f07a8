import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { expect, test, vi } from 'vitest';

import { streamEvents, createSharedView } from './status-page.ts';

test('a viewer who disconnects before the first event takes no slot', async () => {
  const response = new ServerResponse(new IncomingMessage(new Socket()));
  response.destroy();
  const write = vi.spyOn(response, 'write');
  const read = () => Promise.reject(new Error('unexpected call'));
  await streamEvents(response, read, '', 1, new AbortController().signal);
  expect(write).not.toHaveBeenCalled();
});

function viewed(tookMs = 0) {
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

test('all viewers within a second share one view', async () => {
  const { view, pass } = viewed();
  expect(await Promise.all([view(), view(), view()])).toEqual([1, 1, 1]);
  pass(999);
  expect(await view()).toBe(1);
  pass(1);
  expect(await view()).toBe(2);
});

test('a slow view delays the next one accordingly', async () => {
  const { view, pass } = viewed(3_000);
  expect(await view()).toBe(1);
  pass(26_999);
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

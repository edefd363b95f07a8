import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { ApiError } from './api-error.ts';
import { runController, type ControllerOptions, type Reconcile } from './controller.ts';
import { createWorkqueue } from './workqueue.ts';

beforeEach(() => {
  vi.useFakeTimers({ now: new Date('2026-01-01T00:00:00Z') });
});
afterEach(() => {
  vi.useRealTimers();
});

function start(reconcile: Reconcile, options: Partial<ControllerOptions> = {}) {
  const queue = createWorkqueue({ random: () => 0.999_999 });
  const lines: string[] = [];
  const at = (level: string) => (_fields: object, message: string) => {
    lines.push(`${level}: ${message}`);
  };
  const log = { debug: at('debug'), warn: at('warn'), error: at('error') };
  const controller = new AbortController();
  const running = runController({ name: 'test', queue, reconcile, log, ...options }, controller.signal);
  const stop = () => {
    controller.abort(new Error('stop'));
    return running;
  };
  onTestFinished(() => {
    vi.useRealTimers();
    controller.abort();
  });
  return { queue, lines, stop, running };
}

/** Gives these results, and then waits for changes. */
const inTurn = (...results: ReturnType<Reconcile>[]) =>
  vi.fn<Reconcile>(() => results.shift() ?? Promise.resolve({ kind: 'await-change' }));

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

test('a deleted object cancels its scheduled reconcile', async () => {
  const requeue = { kind: 'requeue', at: new Date(Date.now() + 60_000) } as const;
  const reconcile = inTurn(Promise.resolve(requeue), Promise.resolve({ kind: 'gone' }));
  const { queue, stop } = start(reconcile);
  queue.add('a');
  await pass(1_000);
  queue.add('a'); // its object has been deleted
  await pass(1_000_000);
  expect(reconcile).toHaveBeenCalledTimes(2);
  await stop();
});

test.each([
  ['at its date', 60_000, 60_000],
  ['after a delay if its date has passed', -5_000, 1_000],
])('a requeue comes %s', async (_when, inMs, after) => {
  const reconcile = inTurn(Promise.resolve({ kind: 'requeue', at: new Date(Date.now() + inMs) }));
  const { queue, stop } = start(reconcile);
  queue.add('a');
  await pass(after - 1);
  expect(reconcile).toHaveBeenCalledTimes(1);
  await pass(1);
  expect(reconcile).toHaveBeenCalledTimes(2);
  await stop();
});

test('a failure is logged once and retried with backoff', async () => {
  const reconcile = vi.fn<Reconcile>(() => Promise.reject(new Error('no')));
  const { queue, lines, stop } = start(reconcile);
  queue.add('a');
  await pass(0);
  expect(reconcile).toHaveBeenCalledTimes(1);
  await pass(1_000);
  expect(reconcile).toHaveBeenCalledTimes(2);
  await pass(1_000);
  expect(reconcile).toHaveBeenCalledTimes(2);
  await pass(1_000);
  expect(reconcile).toHaveBeenCalledTimes(3);
  expect(lines).toEqual(Array.from({ length: 3 }, () => 'warn: reconcile failed'));
  await stop();
});

test('a conflict is not logged as a problem', async () => {
  const conflict = new ApiError({ method: 'PUT', path: '/x' }, { code: 409, status: { reason: 'Conflict' } });
  const reconcile = inTurn(Promise.reject(conflict));
  const { queue, lines, stop } = start(reconcile);
  queue.add('a');
  await pass(1_000);
  expect(reconcile).toHaveBeenCalledTimes(2);
  expect(lines).toEqual(['debug: reconcile failed']);
  await stop();
});

test('a reconcile that exceeds its timeout is aborted and retried', async () => {
  const reconcile = vi.fn<Reconcile>(
    (_key, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          reject(signal.reason as Error);
        });
      }),
  );
  const { queue, lines, stop } = start(reconcile, { timeoutMs: 5_000 });
  queue.add('a');
  await pass(6_000);
  expect(reconcile).toHaveBeenCalledTimes(2);
  expect(lines).toEqual(['warn: reconcile failed']);
  await stop();
});

test('a reconcile that ignores its signal blocks no worker and no second run of its key', async () => {
  const started: string[] = [];
  const reconcile: Reconcile = (key) => {
    started.push(key);
    return key === 'stuck' ? new Promise(() => undefined) : Promise.resolve({ kind: 'await-change' });
  };
  const { queue, lines } = start(reconcile, { timeoutMs: 5_000 });
  queue.add('stuck');
  queue.add('next');
  await pass(10_000);
  queue.add('stuck');
  await pass(10_000);
  expect(started).toEqual(['stuck', 'next']);
  expect(lines).toEqual(['error: a reconcile ignores its abort signal']);
});

test('a stop aborts running reconciles and waits for them', async () => {
  let cleaned = false;
  const { queue, stop, lines } = start(
    (_key, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () =>
          setTimeout(() => {
            cleaned = true;
            reject(new Error('cut short'));
          }, 100),
        );
      }),
  );
  queue.add('a');
  await pass(0);
  const stopped = vi.fn();
  void stop().then(stopped);
  await pass(99);
  expect(stopped).not.toHaveBeenCalled();
  await pass(1);
  expect(stopped).toHaveBeenCalled();
  expect([cleaned, lines]).toEqual([true, ['debug: reconcile stopped']]);
});

test('the configured number of keys is reconciled concurrently', async () => {
  let now = 0;
  let most = 0;
  const { queue, stop } = start(
    async () => {
      most = Math.max(most, ++now);
      await new Promise((resolve) => setTimeout(resolve, 10));
      now--;
      return { kind: 'await-change' };
    },
    { concurrency: 3 },
  );
  for (const key of 'abcdefgh') queue.add(key);
  await pass(100);
  expect([most, queue.load().depth]).toEqual([3, 0]);
  await stop();
});

test('other work gets its turn while thousands of keys wait whose reconciles do no I/O', async () => {
  vi.useRealTimers();
  const reconcile = vi.fn<Reconcile>(() => Promise.resolve({ kind: 'await-change' }));
  const { queue, stop } = start(reconcile, { concurrency: 8 });
  for (let key = 0; key < 5_000; key += 1) queue.add(`key-${key}`);
  await new Promise((resolve) => setImmediate(resolve));
  expect(reconcile.mock.calls.length).toBeLessThan(200);
  await expect.poll(() => reconcile.mock.calls.length).toBe(5_000);
  await stop();
});

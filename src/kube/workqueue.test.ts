import fc from 'fast-check';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createCountedClock } from '../../test/support/kube/counted-clock.ts';
import { createWorkqueue } from './workqueue.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const flush = () => vi.advanceTimersByTimeAsync(0);

test('a date beyond the maximum of a timer is kept', async () => {
  const queue = createWorkqueue();
  const days = 86_400_000;
  queue.addAfter('a', 60 * days);
  await vi.advanceTimersByTimeAsync(60 * days - 1);
  expect(queue.load().depth).toBe(0);
  await vi.advanceTimersByTimeAsync(1);
  expect(queue.load().depth).toBe(1);
});

test('the delay of retries doubles until the key is forgotten', () => {
  const queue = createWorkqueue({ random: () => 0.999_999 });
  const wait = () => Math.round(queue.retry('a'));
  expect([wait(), wait(), wait()]).toEqual([1_000, 2_000, 4_000]);
  for (let i = 0; i < 20; i++) wait();
  expect(wait()).toBe(300_000);
  queue.forget('a');
  expect(wait()).toBe(1_000);
});

test('shutdown waits for keys in flight and drops the rest, even after an idle moment', async () => {
  const { clock, pending } = createCountedClock();
  const queue = createWorkqueue({ clock });
  queue.add('earlier');
  await queue.next();
  queue.done('earlier');
  queue.add('a');
  queue.add('b');
  queue.addAfter('c', 10);
  expect(pending()).toBe(1);
  await queue.next();
  queue.add('a');
  const down = vi.fn();
  void queue.shutdown().then(down);
  expect(await queue.next()).toBeUndefined();
  await flush();
  expect(down).not.toHaveBeenCalled();
  queue.done('a');
  await flush();
  expect(down).toHaveBeenCalledOnce();
  queue.add('d');
  expect(await queue.next()).toBeUndefined();
  expect(pending()).toBe(0);
});

test('metrics report how long keys wait and run', async () => {
  const seen: unknown[] = [];
  const queue = createWorkqueue({
    metrics: {
      depth: (keys) => seen.push(['depth', keys]),
      added: () => seen.push(['added']),
      queueDuration: (s) => seen.push(['queued', s]),
      workDuration: (s) => seen.push(['worked', s]),
      retried: () => seen.push(['retried']),
    },
  });
  queue.add('a');
  await vi.advanceTimersByTimeAsync(2_000);
  await queue.next();
  await vi.advanceTimersByTimeAsync(3_000);
  expect(queue.load()).toEqual({
    depth: 0,
    inFlight: 1,
    unfinishedWorkSeconds: 3,
    longestRunningProcessorSeconds: 3,
  });
  queue.done('a');
  queue.retry('a');
  expect(seen).toEqual([['added'], ['depth', 1], ['depth', 0], ['queued', 2], ['worked', 3], ['retried']]);
});

const keys = fc.constantFrom('a', 'b', 'c');
const step = fc.oneof(
  fc.record({ do: fc.constant('add' as const), key: keys }),
  fc.record({ do: fc.constant('addAfter' as const), key: keys, ms: fc.integer({ min: -1, max: 50 }) }),
  fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 0, max: 40 }) }),
);

test('two workers never have the same key, and every add after the start of a run causes another run', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 60 }),
      fc.array(fc.record({ ms: fc.integer({ min: 0, max: 30 }), fails: fc.boolean() }), {
        minLength: 1,
        maxLength: 10,
      }),
      async (steps, works) => {
        const queue = createWorkqueue({ backoff: { baseMs: 5, maxMs: 20 } });
        const running = new Set<string>();
        const addedAt = new Map<string, number>();
        const startedAt = new Map<string, number>();
        // A counter instead of the clock, because two events may happen in the same millisecond.
        let tick = 0;
        let runs = 0;
        const worker = async (): Promise<void> => {
          for (let key = await queue.next(); key !== undefined; key = await queue.next()) {
            expect(running.has(key)).toBe(false);
            running.add(key);
            startedAt.set(key, ++tick);
            const { ms, fails } = works[runs++ % works.length] ?? { ms: 0, fails: false };
            await new Promise((resolve) => setTimeout(resolve, ms));
            if (fails && runs < 200) queue.retry(key);
            else queue.forget(key);
            running.delete(key);
            queue.done(key);
          }
        };
        const workers = [worker(), worker(), worker()];
        for (const one of steps) {
          if (one.do === 'pass') {
            await vi.advanceTimersByTimeAsync(one.ms);
          } else {
            addedAt.set(one.key, ++tick);
            if (one.do === 'add') queue.add(one.key);
            else queue.addAfter(one.key, one.ms);
          }
        }
        await vi.advanceTimersByTimeAsync(60_000);
        for (const [key, at] of addedAt) expect(startedAt.get(key)).toBeGreaterThan(at);
        expect(queue.load()).toMatchObject({ depth: 0, inFlight: 0 });
        await queue.shutdown();
        await Promise.all(workers);
      },
    ),
    { numRuns: 60 },
  );
});

import { expect, onTestFinished, test, vi } from 'vitest';
import { systemClock } from '../clock.ts';
import { AWAY_MS, createRecovery, PACED_MS, TURN_MS, type Recovery } from './recovery.ts';

function start(): Recovery {
  vi.useFakeTimers();
  onTestFinished(() => {
    vi.useRealTimers();
  });
  return createRecovery(systemClock);
}

/** Starts `count` requests at once, each of which takes `takesMs`. `sent` returns how many were sent. */
function ask(recovery: Recovery, count: number, takesMs = 1): { readonly sent: () => number } {
  let sent = 0;
  for (let index = 0; index < count; index += 1)
    void recovery.turn(new AbortController().signal).then((end) => {
      sent += 1;
      setTimeout(end, takesMs);
    });
  return { sent: () => sent };
}

test('without an interruption no request waits', async () => {
  const { sent } = ask(start(), 500);
  await vi.advanceTimersByTimeAsync(0);
  expect(sent()).toBe(500);
});

test('of five hundred waiting requests, at most forty per second are sent after the API server is back, and all are', async () => {
  const recovery = start();
  recovery.interrupted();
  const { sent } = ask(recovery, 500);
  recovery.answered();
  await vi.advanceTimersByTimeAsync(0);
  for (let second = 0; second < 12; second += 1) {
    const before = sent();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(sent() - before, `second ${second}`).toBeLessThanOrEqual(1_000 / TURN_MS);
  }
  await vi.advanceTimersByTimeAsync(1_000);
  expect(sent()).toBe(500);
});

test('later requests, after a delay of their own, are paced too', async () => {
  const recovery = start();
  recovery.interrupted();
  recovery.answered();
  await vi.advanceTimersByTimeAsync(PACED_MS - 1);
  const { sent } = ask(recovery, 100);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(sent()).toBeLessThanOrEqual(1_000 / TURN_MS + 1);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(sent()).toBe(100);
});

test('watches that end early pace all requests, and the API server does not count as away', async () => {
  const recovery = start();
  recovery.dismissed();
  const { sent } = ask(recovery, 100, 60_000);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(sent()).toBeGreaterThan(1);
  expect(sent()).toBeLessThanOrEqual(1_000 / TURN_MS + 1);
  expect(recovery.isAway()).toBe(false);
});

test('after a while without interruption no request waits', async () => {
  const recovery = start();
  recovery.interrupted();
  recovery.answered();
  await vi.advanceTimersByTimeAsync(PACED_MS);
  const { sent } = ask(recovery, 100);
  await vi.advanceTimersByTimeAsync(0);
  expect(sent()).toBe(100);
});

test('a silent address gets one request at a time, and the next when that one has failed', async () => {
  const recovery = start();
  recovery.interrupted();
  const { sent } = ask(recovery, 100, 10_000);
  await vi.advanceTimersByTimeAsync(9_000);
  expect(sent()).toBe(1);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(sent()).toBe(2);
});

test('an answer to a request that never waits, such as a lease renewal, releases the others', async () => {
  const recovery = start();
  recovery.interrupted();
  const { sent } = ask(recovery, 10, 60_000);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(sent()).toBe(1);
  recovery.answered();
  await vi.advanceTimersByTimeAsync(10 * TURN_MS);
  expect(sent()).toBe(10);
});

test('an aborted request takes no turn of others', async () => {
  const recovery = start();
  recovery.interrupted();
  const giving = new AbortController();
  const turns = [recovery.turn(giving.signal), recovery.turn(giving.signal), recovery.turn(giving.signal)];
  const outcome = Promise.allSettled(turns);
  const { sent } = ask(recovery, 1);
  giving.abort(new Error('no longer wanted'));
  const [first, ...others] = await outcome;
  expect(first?.status).toBe('fulfilled'); // the first request gets its turn at once, as the probe
  expect(others.map((one) => (one.status === 'rejected' ? String(one.reason) : ''))).toEqual([
    'Error: no longer wanted',
    'Error: no longer wanted',
  ]);
  recovery.answered();
  await vi.advanceTimersByTimeAsync(TURN_MS);
  expect(sent()).toBe(1);
  await expect(recovery.turn(AbortSignal.abort(new Error('over')))).rejects.toThrow('over');
});

test('waiting requests do not delay new ones once all is well again', async () => {
  const recovery = start();
  recovery.interrupted();
  recovery.answered();
  const { sent } = ask(recovery, 2_000);
  await vi.advanceTimersByTimeAsync(PACED_MS);
  expect(sent()).toBeLessThan(2_000);
  const late = ask(recovery, 10);
  await vi.advanceTimersByTimeAsync(0);
  expect(late.sent()).toBe(10);
});

test('a failed request is no interruption while others are answered', () => {
  const recovery = start();
  const since = systemClock.monotonic();
  recovery.answered();
  recovery.interrupted(since);
  vi.advanceTimersByTime(10_000);
  expect(recovery.isAway()).toBe(false);
});

test('after a short silence, prompt requests fail except one per second, until an answer arrives', () => {
  const recovery = start();
  expect([recovery.isAway(), recovery.mayAsk()]).toEqual([false, true]);
  recovery.interrupted();
  expect([recovery.isAway(), recovery.mayAsk(), recovery.mayAsk()]).toEqual([false, true, true]);
  vi.advanceTimersByTime(AWAY_MS);
  recovery.interrupted(); // another interruption does not restart the silence
  expect([recovery.isAway(), recovery.mayAsk(), recovery.mayAsk()]).toEqual([true, true, false]);
  vi.advanceTimersByTime(AWAY_MS);
  expect([recovery.mayAsk(), recovery.mayAsk()]).toEqual([true, false]);
  recovery.answered();
  expect([recovery.isAway(), recovery.mayAsk(), recovery.mayAsk()]).toEqual([false, true, true]);
});

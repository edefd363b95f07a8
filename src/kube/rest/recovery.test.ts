import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { ApiError, NetworkError } from '../api-error.ts';
import { systemClock } from '../clock.ts';
import { AWAY_MS, createRecovery, PACED_MS, TURN_MS, type Recovery } from './recovery.ts';

const LINE = { method: 'GET', path: '/api/v1/pods' };
const REFUSED = new NetworkError(LINE, 'connection', 'no complete answer: connection refused');
const answer = (code: number) => new ApiError(LINE, { code, status: {} });

function start(): Recovery {
  vi.useFakeTimers();
  onTestFinished(() => {
    vi.useRealTimers();
  });
  vi.advanceTimersByTime(600_000); // at 0, a wrong sign would not show
  return createRecovery(systemClock);
}

/** The API server has just stopped answering. */
function lost(): Recovery {
  const recovery = start();
  recovery.interrupted(REFUSED);
  return recovery;
}

/** Starts `count` requests at once. `sent` returns how many were sent. */
function ask(recovery: Recovery, count: number, takesMs = 1): { readonly sent: () => number } {
  let sent = 0;
  for (let index = 0; index < count; index += 1)
    void recovery.turn(new AbortController().signal).then((end) => {
      sent += 1;
      setTimeout(end, takesMs);
    });
  return { sent: () => sent };
}

test('of five hundred waiting requests, at most forty per second are sent after the API server is back, and all are', async () => {
  const recovery = lost();
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

test('requests that come after another delay are also paced', async () => {
  const recovery = lost();
  recovery.answered();
  await vi.advanceTimersByTimeAsync(PACED_MS - 1);
  const { sent } = ask(recovery, 100);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(sent()).toBeLessThanOrEqual(1_000 / TURN_MS + 1);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(sent()).toBe(100);
});

test('after a while without interruption no request waits', async () => {
  const recovery = lost();
  recovery.answered();
  await vi.advanceTimersByTimeAsync(PACED_MS);
  const { sent } = ask(recovery, 100);
  await vi.advanceTimersByTimeAsync(0);
  expect(sent()).toBe(100);
});

test('a silent address gets one request at a time, and the next one after a failure', async () => {
  const recovery = lost();
  const { sent } = ask(recovery, 100, 10_000);
  await vi.advanceTimersByTimeAsync(9_000);
  expect(sent()).toBe(1);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(sent()).toBe(2);
});

test('an answer to a request that never waits, such as a lease renewal, releases the others', async () => {
  const recovery = lost();
  const { sent } = ask(recovery, 10, 60_000);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(sent()).toBe(1);
  recovery.answered();
  await vi.advanceTimersByTimeAsync(10 * TURN_MS);
  expect(sent()).toBe(10);
});

test('an aborted request does not use up the turn of another request', async () => {
  const recovery = lost();
  const giving = new AbortController();
  const turns = [recovery.turn(giving.signal), recovery.turn(giving.signal), recovery.turn(giving.signal)];
  const outcome = Promise.allSettled(turns);
  const { sent } = ask(recovery, 1);
  giving.abort(new Error('not wanted'));
  const [first, ...others] = await outcome;
  expect(first?.status).toBe('fulfilled'); // the first request is the probe and gets its turn immediately
  expect(others.map((one) => (one.status === 'rejected' ? String(one.reason) : ''))).toEqual([
    'Error: not wanted',
    'Error: not wanted',
  ]);
  recovery.answered();
  await vi.advanceTimersByTimeAsync(TURN_MS);
  expect(sent()).toBe(1);
  await expect(recovery.turn(AbortSignal.abort(new Error('over')))).rejects.toThrow('over');
});

test('a failed request is no interruption while others are answered', () => {
  const recovery = start();
  const since = systemClock.monotonic();
  recovery.answered();
  recovery.interrupted(REFUSED, since);
  vi.advanceTimersByTime(10_000);
  expect(recovery.isAway()).toBe(false);
});

test('after a short silence, prompt requests fail except one per second, until an answer arrives', () => {
  const recovery = start();
  expect([recovery.isAway(), recovery.mayAsk()]).toEqual([false, true]);
  recovery.interrupted(REFUSED);
  expect([recovery.isAway(), recovery.mayAsk(), recovery.mayAsk()]).toEqual([false, true, true]);
  vi.advanceTimersByTime(AWAY_MS);
  recovery.interrupted(REFUSED); // another interruption does not restart the silence
  expect([recovery.isAway(), recovery.mayAsk(), recovery.mayAsk()]).toEqual([true, true, false]);
  vi.advanceTimersByTime(AWAY_MS);
  expect([recovery.mayAsk(), recovery.mayAsk()]).toEqual([true, false]);
  recovery.answered();
  expect([recovery.isAway(), recovery.mayAsk(), recovery.mayAsk()]).toEqual([false, true, true]);
});

describe('the listener of outages', () => {
  function listen() {
    const recovery = start();
    const heard: string[] = [];
    recovery.onOutage({
      lost: ({ message }) => heard.push(`lost: ${message}`),
      back: (afterMs) => heard.push(`back after ${afterMs} ms`),
    });
    return { recovery, heard };
  }
  const LOST = `lost: ${REFUSED.message}`;

  test('hears once that the API server is lost, with the first cause, and once that it is back', () => {
    const { recovery, heard } = listen();
    recovery.interrupted(REFUSED);
    for (let failed = 0; failed < 27; failed += 1) {
      vi.advanceTimersByTime(200);
      recovery.interrupted(new NetworkError(LINE, 'connection', 'another cause'));
    }
    expect(heard).toEqual([LOST]);
    for (let answered = 0; answered < 27; answered += 1) recovery.answered();
    expect(heard).toEqual([LOST, 'back after 5400 ms']);
  });

  test('counts an outage without any answer from the first request that got none', () => {
    const { recovery, heard } = listen();
    const since = systemClock.monotonic();
    vi.advanceTimersByTime(30_000);
    recovery.interrupted(REFUSED, since);
    recovery.answered();
    expect(heard).toEqual([LOST, 'back after 30000 ms']);
  });

  test('hears nothing of old connections that break right after an outage, but of the next outage', () => {
    const { recovery, heard } = listen();
    recovery.interrupted(REFUSED);
    recovery.answered();
    heard.length = 0;
    vi.advanceTimersByTime(PACED_MS / 3);
    recovery.interrupted(REFUSED);
    vi.advanceTimersByTime(AWAY_MS / 2);
    recovery.answered();
    expect(heard).toEqual([]);
    recovery.interrupted(REFUSED);
    vi.advanceTimersByTime(AWAY_MS);
    recovery.interrupted(REFUSED);
    recovery.answered();
    expect(heard).toEqual([LOST, `back after ${AWAY_MS} ms`]);
  });

  test('hears at most every fifteen seconds of a request that breaks again and again', () => {
    const { recovery, heard } = listen();
    for (let broken = 0; broken < 30; broken += 1) {
      recovery.interrupted(REFUSED);
      vi.advanceTimersByTime(100);
      recovery.answered();
      vi.advanceTimersByTime(1_900);
    }
    expect(heard.filter((one) => one === LOST)).toHaveLength(4); // in a minute
    expect(heard).toHaveLength(8);
  });

  test('covers failures during an outage, and failures of an API server that is still starting', () => {
    const { recovery } = listen();
    const starting = [401, 403, 404, 429, 500, 503, 504].map(answer);
    const failures = [REFUSED, ...starting];
    const covered = () => failures.map((error) => recovery.covers(error));
    expect(covered()).toEqual(failures.map(() => false));
    recovery.interrupted(REFUSED);
    expect(recovery.covers(REFUSED)).toBe(true);
    recovery.answered();
    expect(covered()).toEqual(failures.map(() => true));
    for (const error of [
      answer(409),
      answer(422),
      new Error('ours'),
      new NetworkError(LINE, 'malformed', 'no JSON'),
    ])
      expect(recovery.covers(error)).toBe(false);
    vi.advanceTimersByTime(PACED_MS);
    expect(covered()).toEqual(failures.map(() => false));
  });
});

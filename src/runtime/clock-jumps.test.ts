import { expect, test } from 'vitest';
import { followClock } from './clock-skew.ts';

const DAY = 86_400_000;

function followed() {
  let [wall, monotonic] = [Date.parse('2026-11-21T12:00:00Z'), 0];
  let timer: (() => void) | undefined;
  const jumps: number[] = [];
  const stop = new AbortController();
  followClock(
    () => new Date(wall),
    (ms) => jumps.push(ms),
    stop.signal,
    {
      monotonic: () => monotonic,
      after: (_ms, run) => {
        timer = run;
        return () => {
          timer = undefined;
        };
      },
    },
  );
  const pass = (wallMs: number, monotonicMs: number) => {
    wall += wallMs;
    monotonic += monotonicMs;
    timer?.();
  };
  return { jumps, pass, stop, isWaiting: () => timer !== undefined };
}

test.each([400 * DAY, -400 * DAY])('C1: a clock jump of %d ms is reported once', (jump) => {
  const { pass, jumps } = followed();
  pass(jump + 30_000, 30_000);
  pass(30_000, 30_000);
  expect(jumps).toEqual([jump]);
});

test('C1, cert-manager TestStartRenewalWatcher: moment missed while paused: 30 days of suspend count as a jump, because timers did not run', () => {
  const { pass, jumps } = followed();
  pass(30 * DAY, 30_000);
  expect(jumps).toEqual([30 * DAY - 30_000]);
});

test('a clock that NTP adjusts never jumps', () => {
  const { pass, jumps } = followed();
  for (let n = 0; n < 100; n++) pass(30_000 + (n % 3), 30_000);
  expect(jumps).toEqual([]);
});

test('an abort ends the checks', () => {
  const { stop, isWaiting } = followed();
  stop.abort();
  expect(isWaiting()).toBe(false);
});

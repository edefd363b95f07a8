import { expect, test } from 'vitest';
import { followClock, watchClockSkew } from './clock-skew.ts';

function scene() {
  let skewMs: number | undefined;
  let look: (() => void) | undefined;
  const said: string[] = [];
  const say = (_fields: object, message: string) => said.push(message);
  watchClockSkew(
    { skewMs: () => skewMs },
    { scrape: () => undefined },
    { info: say, warn: say },
    new AbortController().signal,
    {
      after: (_ms, run) => {
        look = run;
        return () => undefined;
      },
    },
  );
  return {
    said,
    lookAt: (ms: number | undefined) => {
      skewMs = ms;
      look?.();
    },
  };
}

test('F15: a clock skew above 30 s is logged once, and its end is logged too', () => {
  const { said, lookAt } = scene();
  for (const ms of [undefined, 29_000, -30_000]) lookAt(ms);
  expect(said).toEqual([]);
  for (const ms of [31_000, 32_000]) lookAt(ms);
  expect(said).toHaveLength(1);
  lookAt(1_000);
  lookAt(-45_000);
  expect(said).toEqual([
    'the clock of this replica is 31 s ahead of the clock of the API server: synchronise it',
    'the clocks of this replica and of the API server agree again',
    'the clock of this replica is 45 s behind the clock of the API server: synchronise it',
  ]);
});

const DAY = 86_400_000;

function followed() {
  let [wall, monotonic] = [Date.parse('2026-11-21T12:00:00Z'), 0];
  let timer: (() => void) | undefined;
  const jumps: number[] = [];
  followClock(
    () => new Date(wall),
    (ms) => jumps.push(ms),
    new AbortController().signal,
    {
      monotonic: () => monotonic,
      after: (_ms, run) => {
        timer = run;
        return () => undefined;
      },
    },
  );
  const pass = (wallMs: number, monotonicMs: number) => {
    wall += wallMs;
    monotonic += monotonicMs;
    timer?.();
  };
  return { jumps, pass };
}

test.each([400 * DAY, -400 * DAY])(
  'C1: a clock jump of %d ms is reported once, and NTP causes none',
  (jump) => {
    const { pass, jumps } = followed();
    for (let n = 0; n < 99; n++) pass(29_999 + (n % 3), 30_000);
    expect(jumps).toEqual([]);
    pass(jump + 30_000, 30_000);
    pass(30_000, 30_000);
    expect(jumps).toEqual([jump]);
  },
);

test('C1, cert-manager TestStartRenewalWatcher: moment missed while paused: 30 days of suspend count as a jump, because timers did not run', () => {
  const { pass, jumps } = followed();
  pass(30 * DAY, 30_000);
  expect(jumps).toEqual([30 * DAY - 30_000]);
});

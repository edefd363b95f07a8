import { expect, test } from 'vitest';
import { watchClockSkew } from './clock-skew.ts';

function scene() {
  let skewMs: number | undefined;
  let look: (() => void) | undefined;
  const said: string[] = [];
  let exported: () => number | undefined = () => undefined;
  const stopping = new AbortController();
  const say = (_fields: object, message: string) => said.push(message);
  watchClockSkew(
    { skewMs: () => skewMs },
    { scrape: ({ clockSkew = exported }) => (exported = clockSkew) },
    { info: say, warn: say },
    stopping.signal,
    {
      after: (_ms, run) => {
        look = run;
        return () => (look = undefined);
      },
    },
  );
  return {
    said,
    exported: () => exported(),
    stop: () => {
      stopping.abort();
    },
    isLooking: () => look !== undefined,
    lookAt: (ms: number | undefined) => {
      skewMs = ms;
      look?.();
    },
  };
}

test('F15: a clock skew of more than 30 s is logged once, and its end is logged too', () => {
  const { said, lookAt } = scene();
  for (const ms of [undefined, 29_000, -30_000]) lookAt(ms);
  expect(said).toEqual([]);
  for (const ms of [31_000, 32_000]) lookAt(ms);
  expect(said).toEqual(['the clock of this replica is 31 s ahead of that of the API server: synchronise it']);
  lookAt(1_000);
  lookAt(-45_000);
  expect(said.slice(1)).toEqual([
    'the clocks of this replica and of the API server agree again',
    'the clock of this replica is 45 s behind that of the API server: synchronise it',
  ]);
});

test('every replica exports its clock skew', () => {
  const { exported, lookAt } = scene();
  lookAt(1_234);
  expect(exported()).toBe(1_234);
});

test('the checks end with the replica', () => {
  const { stop, isLooking } = scene();
  stop();
  expect(isLooking()).toBe(false);
});

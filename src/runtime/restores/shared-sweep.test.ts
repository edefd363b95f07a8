import { beforeEach, expect, test } from 'vitest';

import { createSharedSweep, type SweepOptions } from './sweep.ts';

const NEVER = new AbortController().signal;
const at = (seconds: number) => new Date(Date.UTC(2026, 10, 21, 12, 0, seconds));
const options = (change: Partial<SweepOptions> = {}): SweepOptions => ({
  interim: false,
  since: at(0),
  namespaceMapping: {},
  ...change,
});

let now: Date;
let sweeps: number;
let tookMs: number;
let shared: ReturnType<typeof createSharedSweep>;

/** By default, each sweep takes two seconds. */
beforeEach(() => {
  now = at(0);
  sweeps = 0;
  tookMs = 2_000;
  shared = createSharedSweep(
    ({ interim }) => {
      const startedAt = now;
      now = new Date(now.getTime() + tookMs);
      sweeps += 1;
      const found = { objectsScanned: sweeps, violations: [], unreadable: [] };
      return Promise.resolve({ startedAt, finishedAt: now, interim, ...found });
    },
    () => now,
  );
});

test('F16: waiting windows share a sweep that started late enough', async () => {
  now = at(10);
  expect(await shared(options(), at(9), NEVER)).toMatchObject({
    kind: 'swept',
    result: { objectsScanned: 1 },
  });
  expect(await shared(options({ since: at(5) }), at(10), NEVER)).toMatchObject({
    result: { objectsScanned: 1 },
  });
  expect(await shared(options({ interim: true }), at(8), NEVER)).toMatchObject({
    result: { objectsScanned: 1, interim: true },
  });
});

test.each<[string, Partial<SweepOptions>, number]>([
  ['started too early', {}, 11],
  ['covered a shorter past', { since: at(-1) }, 9],
  ['did not know the namespace mapping', { namespaceMapping: { prod: 'copy' } }, 9],
])(
  'a sweep that %s is not shared; the next one waits, so that sweeps take a fifth of the time',
  async (_why, change, from) => {
    now = at(10);
    await shared(options(), at(9), NEVER);
    expect(await shared(options(change), at(from), NEVER)).toEqual({ kind: 'later', at: at(20) });
    now = at(20);
    expect(await shared(options(change), at(from), NEVER)).toMatchObject({ kind: 'swept' });
    expect(sweeps).toBe(2);
  },
);

test('an interim sweep does not replace a final one', async () => {
  now = at(10);
  await shared(options({ interim: true }), at(9), NEVER);
  expect(await shared(options(), at(9), NEVER)).toMatchObject({ kind: 'later' });
});

test('the next sweep starts at least a second after a fast one', async () => {
  tookMs = 0;
  now = at(10);
  await shared(options(), at(9), NEVER);
  expect(await shared(options(), at(11), NEVER)).toEqual({ kind: 'later', at: at(11) });
});

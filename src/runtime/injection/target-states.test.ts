import { expect, test } from 'vitest';

import { createTargetStates } from './target-store.ts';

function states() {
  const clock = { ms: 1_000 };
  return { clock, ...createTargetStates(['APIService', 'ConfigMap'], () => clock.ms) };
}

test('every kind and state has a count, even zero', () => {
  const { report, targets } = states();
  report('ConfigMap', 'prod/a', 'current');
  report('ConfigMap', 'prod/b', 'invalid');
  report('ConfigMap', 'prod/c', 'invalid');
  expect(targets()).toHaveLength(8);
  expect(targets().filter(({ count }) => count > 0)).toEqual([
    { kind: 'ConfigMap', state: 'current', count: 1 },
    { kind: 'ConfigMap', state: 'invalid', count: 2 },
  ]);
});

test('an object that is no longer a target is not counted', () => {
  const { report, targets, staleSeconds } = states();
  report('APIService', 'v1.x', 'stale');
  report('APIService', 'v1.x', undefined);
  expect(targets().every(({ count }) => count === 0)).toBe(true);
  expect(staleSeconds()).toBe(0);
});

test('staleness is the age of the oldest target that is not current', () => {
  const { clock, report, staleSeconds } = states();
  report('ConfigMap', 'prod/a', 'stale');
  clock.ms += 5_000;
  report('ConfigMap', 'prod/b', 'stale');
  report('ConfigMap', 'prod/a', 'contended');
  clock.ms += 5_000;
  expect(staleSeconds()).toBe(10);
  report('ConfigMap', 'prod/a', 'current');
  expect(staleSeconds()).toBe(5);
  report('ConfigMap', 'prod/b', 'current');
  expect(staleSeconds()).toBe(0);
});

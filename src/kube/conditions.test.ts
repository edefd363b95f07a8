import { expect, test } from 'vitest';
import { setCondition } from './conditions.ts';

const ready = { type: 'Ready', status: 'True', reason: 'Compiled', message: 'in force' } as const;
const first = setCondition(undefined, ready, new Date('2026-01-01T00:00:00.700Z'));
const later = new Date('2026-02-02T00:00:00Z');

test('a new condition has the current time in whole seconds', () => {
  expect(first).toEqual([{ ...ready, lastTransitionTime: '2026-01-01T00:00:00Z' }]);
});

test('an unchanged condition returns the same array', () => {
  expect(setCondition(first, ready, later)).toBe(first);
});

test.each([
  ['status', { status: 'False' }, '2026-02-02T00:00:00Z'],
  ['reason', { reason: 'Recompiled' }, '2026-01-01T00:00:00Z'],
  ['message', { message: 'still in force' }, '2026-01-01T00:00:00Z'],
  ['generation', { observedGeneration: 2 }, '2026-01-01T00:00:00Z'],
] as const)(
  'a new %s is written; only a new status changes lastTransitionTime',
  (_what, change, lastTransitionTime) => {
    expect(setCondition(first, { ...ready, ...change }, later)).toEqual([
      { ...ready, ...change, lastTransitionTime },
    ]);
  },
);

test('other conditions keep their order', () => {
  const two = setCondition(first, { ...ready, type: 'Installed' }, later);
  expect(setCondition(two, { ...ready, status: 'False' }, later).map(({ type }) => type)).toEqual([
    'Ready',
    'Installed',
  ]);
});

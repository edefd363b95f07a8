import { describe, expect, test } from 'vitest';

import type { Condition } from './kube-object.ts';
import { setCondition, setReady } from './conditions.ts';

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

test('a message longer than the API server stores is cut, keeps its lines, and is written once', () => {
  const long = { ...ready, message: 'kind: ClusterRole\n'.repeat(3_000) };
  const written = setCondition(undefined, long, later);
  expect(written[0]?.message).toHaveLength(32_768);
  expect(written[0]?.message.startsWith('kind: ClusterRole\nkind')).toBe(true);
  expect(setCondition(written, long, new Date('2026-03-03T00:00:00Z'))).toBe(written);
});

describe('setReady', () => {
  const isReady = { status: 'True', reason: 'InForce', message: 'in force' } as const;
  const isNot = { status: 'False', reason: 'Broken', message: 'line 3' } as const;
  const typesOf = (conditions: readonly Condition[]) =>
    conditions.map(({ type, status }) => `${type}=${status}`);

  test('Reconciling and Stalled exist only while they are true', () => {
    const stalled = setReady(undefined, isNot, 'Stalled', later);
    expect(typesOf(stalled)).toEqual(['Ready=False', 'Stalled=True']);
    expect(stalled[1]).toMatchObject({ reason: 'Broken', message: 'line 3' });
    const reconciling = setReady(stalled, isNot, 'Reconciling', later);
    expect(typesOf(reconciling)).toEqual(['Ready=False', 'Reconciling=True']);
    expect(typesOf(setReady(reconciling, isReady, undefined, later))).toEqual(['Ready=True']);
  });

  test('an unchanged state returns the same array', () => {
    const stalled = setReady(first, isNot, 'Stalled', later);
    expect(setReady(stalled, isNot, 'Stalled', later)).toBe(stalled);
  });
});

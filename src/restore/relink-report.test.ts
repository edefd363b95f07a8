import { expect, test } from 'vitest';

import type { RelinkItem } from '../api/restore-findings.ts';
import { relinkCondition, toRelinkStatus } from './relink-report.ts';

const item = (name: string, result: RelinkItem['result'], message?: string): RelinkItem => ({
  object: { apiVersion: 'v1', kind: 'Server', name },
  owner: { apiVersion: 'v1', kind: 'Rack', name: 'r1' },
  result,
  ...(message === undefined ? {} : { message }),
});

test('counts what was found, and lists what was not linked', () => {
  const status = toRelinkStatus(undefined, [
    item('b', 'OwnerMissing'),
    item('c', 'Linked'),
    item('a', 'Failed'),
  ]);
  expect(status).toMatchObject({ found: 3, linked: 1, skipped: 1, failed: 1 });
  expect(status.items?.map(({ object }) => object.name)).toEqual(['a', 'b']);
});

test('what an earlier sweep linked stays counted, and its remarks stay', () => {
  const first = toRelinkStatus(undefined, [
    item('a', 'Linked', 'without blockOwnerDeletion'),
    item('b', 'Linked'),
  ]);
  expect(first.items).toHaveLength(1);
  const second = toRelinkStatus(first, [item('c', 'Linked')]);
  expect(second).toMatchObject({ found: 3, linked: 3, skipped: 0, failed: 0, items: first.items });
});

test('lists 50 at most, and counts all', () => {
  const items = Array.from({ length: 80 }, (_, n) => item(`s${n}`, 'OwnerMissing'));
  const status = toRelinkStatus(undefined, items);
  expect([status.skipped, status.items?.length]).toEqual([80, 50]);
});

test.each<[items: readonly RelinkItem[], status: string, reason: string]>([
  [[], 'True', 'Linked'],
  [[item('a', 'Linked')], 'True', 'Linked'],
  [[item('a', 'OwnerMissing'), item('b', 'Linked')], 'False', 'NotAllLinked'],
  [[item('a', 'WouldLink')], 'False', 'NotAllLinked'],
  [[item('a', 'Failed'), item('b', 'OwnerMissing')], 'False', 'LinkFailed'],
])('the condition says whether all is linked (%#)', (items, status, reason) => {
  expect(relinkCondition(toRelinkStatus(undefined, items))).toMatchObject({
    type: 'OwnersRelinked',
    status,
    reason,
  });
});

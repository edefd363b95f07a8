import { isEqual } from '../equality.ts';
import { charge, type Frame } from '../frame.ts';
import type { CelList } from '../values.ts';
import { defineWithFrame } from './define.ts';

function contains(frame: Frame, list: CelList, part: CelList): boolean {
  return part.every((item) => includes(frame, list, item));
}

function includes(frame: Frame, list: CelList, item: unknown): boolean {
  charge(frame, 1 + list.length);
  return list.some((candidate) => isEqual(candidate, item, frame));
}

/** Lists taken for sets. Each pair of elements is charged, for each may be compared. */
export const sets = [
  defineWithFrame('sets.contains(list<T>, list<T>): bool', contains),
  defineWithFrame(
    'sets.equivalent(list<T>, list<T>): bool',
    (frame, left, right) => contains(frame, left, right) && contains(frame, right, left),
  ),
  defineWithFrame('sets.intersects(list<T>, list<T>): bool', (frame, left, right) =>
    left.some((item) => includes(frame, right, item)),
  ),
];

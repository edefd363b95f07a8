import { expect, test } from 'vitest';

import { relative, span } from './span.ts';
import { timeLine } from './time-line.ts';

const day = (number: number) => new Date(Date.UTC(2026, 0, number));

test('lives stand under each other on one stretch of time, with now in each', () => {
  const older = { from: day(1), to: day(11), stroke: '-' };
  const newer = { from: day(6), to: day(21), stroke: '=' };
  const { bars, from, to } = timeLine([newer, older], day(8), 20);
  expect(bars).toEqual([
    '.....==|============', //
    '-------|---.........',
  ]);
  expect([from, to]).toEqual([day(1), day(21)]);
});

test('now may lie outside of every life, and no life at all is no failure', () => {
  const { bars } = timeLine([{ from: day(1), to: day(6), stroke: '=' }], day(11), 10);
  expect(bars).toEqual(['======...|']);
  expect(timeLine([], day(1), 10).bars).toEqual([]);
});

test('lengths are as short as those of kubectl', () => {
  expect([45_000, 300_000, 30 * 3_600_000, 89.9 * 86_400_000].map(span)).toEqual(['45s', '5m', '30h', '89d']);
  expect(relative('2026-01-01T00:00:00Z', day(4))).toBe('3d ago');
  expect(relative('2026-01-08T00:00:00Z', day(4))).toBe('in 4d');
  expect(relative('soon', day(4))).toBe('–');
});

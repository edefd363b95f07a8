import { expect, test } from 'vitest';

import { relative, span, timeLine } from './time-line.ts';

const day = (number: number) => new Date(Date.UTC(2026, 0, number));

test('all bars use the same time scale and mark the current time', () => {
  const older = { from: day(1), to: day(11), stroke: '-' };
  const newer = { from: day(6), to: day(21), stroke: '=' };
  const { bars, from, to } = timeLine([newer, older], day(8), 20);
  expect(bars).toEqual([
    '.....==|============', //
    '-------|---.........',
  ]);
  expect([from, to]).toEqual([day(1), day(21)]);
});

test('the current time may be outside of all lifetimes, and the list may be empty', () => {
  const { bars } = timeLine([{ from: day(1), to: day(6), stroke: '=' }], day(11), 10);
  expect(bars).toEqual(['======...|']);
  expect(timeLine([], day(1), 10).bars).toEqual([]);
});

test('durations are as short as in kubectl', () => {
  expect([45_000, 300_000, 30 * 3_600_000, 89.9 * 86_400_000].map(span)).toEqual(['45s', '5m', '30h', '89d']);
  expect(relative('2026-01-01T00:00:00Z', day(4))).toBe('3d ago');
  expect(relative('2026-01-08T00:00:00Z', day(4))).toBe('in 4d');
  expect(relative('soon', day(4))).toBe('–');
});

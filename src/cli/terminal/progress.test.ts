import { expect, test } from 'vitest';

import { formatProgress } from './progress.ts';

test('progress is shown as a bar, a percentage and numbers', () => {
  expect(formatProgress({ what: 'servers.example.com', done: 1500, total: 3000 }, 100, false)).toBe(
    '[============            ]  50%  1,500 of 3,000 objects  servers.example.com',
  );
  expect(formatProgress({ what: 'servers', done: 0, total: 0 }, 100, false)).toContain('] 100%  0 of 0');
});

test.each([
  ['the total is unknown', { what: 'servers', done: 7 }],
  ['the total is exceeded', { what: 'servers', done: 7, total: 5 }],
])('if %s, only the number of objects is shown', (_when, progress) => {
  expect(formatProgress(progress, 100, false)).toBe('7 objects  servers');
});

test.each([1, 10, 30, 60])('the line fits a terminal of %i columns', (width) => {
  const progress = { what: 'x'.repeat(200), done: 1500, total: 3000 };
  expect(formatProgress(progress, width, false).length).toBeLessThanOrEqual(width);
  expect(formatProgress({ what: 'x'.repeat(200), done: 3 }, width, false).length).toBeLessThanOrEqual(width);
});

test('without colours there are no escapes, and names cannot add any', () => {
  const progress = { what: 'a\u001b[31m', done: 1, total: 2 };
  expect(formatProgress(progress, 100, false)).not.toContain('\u001b');
  expect(formatProgress(progress, 100, true)).toContain('\u001b[32m');
});

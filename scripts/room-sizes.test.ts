import { expect, test } from 'vitest';

import { measureProduct, missedLimits, sizesByRoom, type ProductSize } from './room-sizes.ts';

const FILES = [
  { path: 'src/main.ts', lines: 3 },
  { path: 'src/kube/client.ts', lines: 100 },
  { path: 'src/admission/decide.ts', lines: 90 },
  { path: 'src/admission/policy/rules/check.ts', lines: 60 },
  { path: 'src/admission/policy/unique/check.ts', lines: 50 },
  { path: 'src/sandbox/server/storage.ts', lines: 900 },
  { path: 'src/cel/parser/parse.ts', lines: 800 },
];
const GOOD: ProductSize = { lines: 44_000, count: 480, median: 100, longest: 350, tooLong: [] };

test('rooms are listed by size, and large rooms by folder', () => {
  expect(sizesByRoom(FILES)).toEqual([
    { room: 'sandbox', lines: 900, count: 1 },
    { room: 'cel', lines: 800, count: 1 },
    { room: 'admission/policy', lines: 110, count: 2 },
    { room: 'kube', lines: 100, count: 1 },
    { room: 'admission', lines: 90, count: 1 },
    { room: '.', lines: 3, count: 1 },
  ]);
});

test('the product excludes the sandbox and CEL', () => {
  expect(measureProduct(FILES)).toEqual({ lines: 303, count: 5, median: 60, longest: 100, tooLong: [] });
  expect(measureProduct(FILES.slice(1)).median).toBe(75);
  expect(measureProduct([{ path: 'src/kube/a.ts', lines: 351 }]).tooLong).toEqual(['src/kube/a.ts']);
});

test.each<[string, Partial<ProductSize>, readonly string[]]>([
  ['all limits hold', {}, []],
  ['there are too many lines', { lines: 44_001 }, ['44001 lines, at most 44000 are allowed']],
  ['there are too many files', { count: 481 }, ['481 files, at most 480 are allowed']],
  ['files are fragments', { median: 79 }, ['the median file has 79 lines, it must have 80 to 160']],
  ['files are too long', { median: 161 }, ['the median file has 161 lines, it must have 80 to 160']],
  ['one file is too long', { tooLong: ['src/a.ts'] }, ['src/a.ts has more than 350 lines']],
])('when %s, the report says so', (_when, change, expected) => {
  expect(missedLimits({ ...GOOD, ...change })).toEqual(expected);
});

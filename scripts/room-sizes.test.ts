import { expect, test } from 'vitest';

import { LIMITS, missedLimits, sizesByRoom } from './room-sizes.ts';

test('rooms are listed by size, and the folders of large ones, too', () => {
  const files = [
    { path: 'src/main.ts', lines: 3 },
    { path: 'src/kube/client.ts', lines: 100 },
    { path: 'src/admission/decide.ts', lines: 90 },
    { path: 'src/admission/policy/rules/check.ts', lines: 60 },
    { path: 'src/admission/policy/unique/check.ts', lines: 50 },
    { path: 'src/sandbox/http/storage.ts', lines: 900 },
  ];
  expect(sizesByRoom(files)).toEqual([
    { room: 'sandbox', lines: 900, count: 1 },
    { room: 'admission', lines: 200, count: 3 },
    { room: 'admission/policy', lines: 110, count: 2 },
    { room: 'kube', lines: 100, count: 1 },
    { room: '.', lines: 3, count: 1 },
  ]);
});

test.each([
  ['nothing', [{ path: 'src/kube/a.ts', lines: LIMITS.product.lines }], []],
  [
    'src is too large',
    [{ path: 'src/kube/a.ts', lines: LIMITS.product.lines + 1 }],
    [`src: ${LIMITS.product.lines + 1} lines, at most ${LIMITS.product.lines} are allowed`],
  ],
  [
    'there are too many files',
    Array.from({ length: LIMITS.product.files + 1 }, (_, n) => ({ path: `src/kube/${n}.ts`, lines: 1 })),
    [`src: ${LIMITS.product.files + 1} files, at most ${LIMITS.product.files} are allowed`],
  ],
  [
    'a room is too large',
    [{ path: 'src/sandbox/http/a.ts', lines: LIMITS.rooms.sandbox + 1 }],
    [`src/sandbox: ${LIMITS.rooms.sandbox + 1} lines, at most ${LIMITS.rooms.sandbox} are allowed`],
  ],
  [
    'tests are too large, next to the source or not',
    [
      { path: 'src/sandbox/a.test.ts', lines: LIMITS.tests.lines },
      { path: 'scripts/a.ts', lines: 1 },
    ],
    [
      `tests, benchmarks and scripts: ${LIMITS.tests.lines + 1} lines, at most ${LIMITS.tests.lines} are allowed`,
    ],
  ],
])('when %s, the report says so', (_when, files, expected) => {
  expect(missedLimits(files)).toEqual(expected);
});

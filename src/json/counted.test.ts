import { expect, test } from 'vitest';

import { counted } from './counted.ts';

test.each([
  [0, 'object', '0 objects'],
  [1, 'violation', '1 violation'],
  [2, 'policy', '2 policies'],
  [2, 'key', '2 keys'],
])('%i of "%s" is "%s"', (count, one, expected) => {
  expect(counted(count, one)).toBe(expected);
});

import { expect, test } from 'vitest';

import { cellText } from './cell-text.ts';

// As a kube-apiserver showed these values in a column of strings.
test.each([
  ['text', 'text'],
  ['<a&b>', '<a&b>'],
  [7, '7'],
  [1234567890123, '1234567890123'],
  [9007199254740993n, '9007199254740993'],
  [2.75, '2.75'],
  [12345678.5, '1.23456785e+07'],
  [0.00001, '1e-05'],
  [true, 'true'],
  [null, '<no value>'],
  [{ z: 1, a: [true, null, 'x'] }, '{"a":[true,null,"x"],"z":1}'],
  [{ a: '<a&b>' }, String.raw`{"a":"\u003ca\u0026b\u003e"}`],
])('%o is shown as %s', (value, text) => {
  expect(cellText(value)).toBe(text);
});

import { expect, test } from 'vitest';

import { parseBytes } from './quantities.ts';
import { resolveConfig } from './config.ts';

test.each([
  ['0', 0],
  ['1048576', 1_048_576],
  ['512KiB', 524_288],
  ['64MiB', 67_108_864],
  ['64Mi', 67_108_864],
  ['1.5 GiB', 1_610_612_736],
])('%s are %d bytes', (text, bytes) => {
  expect(parseBytes(text)).toBe(bytes);
});

test.each(['', 'MiB', '-1MiB', '1TiB', '1e3', '64 Megabytes', `${'9'.repeat(400)}MiB`])(
  '%j is not a size',
  (text) => {
    expect(() => parseBytes(text)).toThrow('is not a size; write a number and a unit');
  },
);

test('the conversion body limit is 64 MiB by default, and is at least an object and at most a string', () => {
  const limit = (text: string) => resolveConfig({ 'conversion-body-limit': text }, {}).conversionBodyLimit;
  expect(resolveConfig({}, {}).conversionBodyLimit).toBe(64 * 1024 ** 2);
  expect(limit('8MiB')).toBe(8 * 1024 ** 2);
  expect(() => limit('1MiB')).toThrow('--conversion-body-limit: "1MiB" is too small');
  expect(() => limit('1GiB')).toThrow('--conversion-body-limit: "1GiB" is too large');
});

import { expect, test } from 'vitest';
import { evaluate, failureOf } from '../../../test/support/cel/evaluate.ts';

test.each(['', ' 1', '1 ', '1Gib', '1,5G', '--1', '1.2.3', '0x10', '1e99999999999'])(
  '"%s" is not a quantity',
  (text) => {
    expect(evaluate('isQuantity(text)', { text })).toBe(false);
  },
);

test('an invalid quantity has the message of the API server', () => {
  expect(failureOf("quantity('1Gib')")).toBe(
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
  );
  expect(failureOf("quantity('1iK')")).toBe("unable to parse quantity's suffix");
});

test('a large exponent in user data costs little time', () => {
  expect(evaluate("isQuantity('1e2147483647')")).toBe(false);
  expect(evaluate("quantity('1e-2147483648') == quantity('1n')")).toBe(true);
});

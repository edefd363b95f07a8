import { expect, test } from 'vitest';
import { evaluate, failureOf } from '../../../test/support/cel/evaluate.ts';

test.each([
  ["quantity('200M').compareTo(quantity('0.2G')) == 0", true],
  ["quantity('50M').compareTo(quantity('50Mi')) == -1", true],
  ["quantity('50Mi').compareTo(quantity('50M')) == 1", true],
  ["quantity('150Mi').isGreaterThan(quantity('100Mi'))", true],
  ["quantity('50M').isLessThan(quantity('100M'))", true],
  ["quantity('-50M').isLessThan(quantity('1n'))", true],
  ["quantity('1') == quantity('1000m')", true],
  ["quantity('0.1').add(quantity('0.2')) == quantity('0.3')", true],
  ["quantity('50k').add(20) == quantity('50020')", true],
  ["quantity('50k').sub(quantity('20k')) == quantity('30k')", true],
  ["quantity('9Ei').add(quantity('9Ei')) == quantity('18446744073709551614')", true],
  ["quantity('9223372036854775807').add(quantity('1')) == quantity('9223372036854775808')", true],
  ["quantity('1E2') == quantity('100')", true],
  ["quantity('1e-2') == quantity('10m')", true],
  ["quantity('.5') == quantity('500m')", true],
  ["quantity('1.') == quantity('1')", true],
  ["sign(quantity('-3')) == -1 && sign(quantity('0')) == 0 && sign(quantity('3k')) == 1", true],
  ["type(quantity('1')) == kubernetes.Quantity", true],
  ["quantity('1') != dyn('1')", true],
  // Finer than nano: rounded away from zero.
  ["quantity('0.1n') == quantity('1n') && quantity('-0.1n') == quantity('-1n')", true],
  ["quantity('1.0000000001') == quantity('1000000001n')", true],
  ["quantity('2').sub(1) == quantity('1')", true],
  ["quantity('1') != quantity('2').sub(1)", true], // as in the API server, which cannot compare them
  ["[quantity('1.5Gi')].all(q, q.add(q) == quantity('3Gi') && q.add(q) == quantity('3Gi'))", true],
])('%s', (expression, result) => {
  expect(evaluate(expression)).toBe(result);
});

test.each([
  ['50k 50000000G', true],
  // As in the API server: a quantity stored as a decimal is not an integer, whatever its value.
  ['9999999999999999999999999999999999999G 1.5 1000m 1.5Gi', false],
])('each of %s is an integer: %s', (texts, isInteger) => {
  for (const text of texts.split(' '))
    expect(evaluate(`quantity('${text}').isInteger()`), text).toBe(isInteger);
});

test('only integers convert to int', () => {
  expect(evaluate("quantity('50k').asInteger()")).toBe(50_000n);
  expect(failureOf("quantity('1.5').asInteger()")).toBe('cannot convert value to integer');
});

test('every quantity converts to a double', () => {
  expect(evaluate("quantity('1.5Gi').asApproximateFloat()")).toBe(1_610_612_736);
  expect(evaluate("quantity('100m').asApproximateFloat()")).toBe(0.1);
});

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

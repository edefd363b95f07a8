import { expect, test } from 'vitest';
import { evaluate, failureOf } from '../../../test/support/cel/evaluate.ts';

const at = "timestamp('2026-12-31T23:30:15.987654321Z')";

test.each([
  ['getFullYear()', 2026n],
  ['getMonth()', 11n],
  ['getDate()', 31n],
  ['getDayOfMonth()', 30n],
  ['getDayOfWeek()', 4n],
  ['getDayOfYear()', 364n],
  ['getHours()', 23n],
  ['getMinutes()', 30n],
  ['getSeconds()', 15n],
  ['getMilliseconds()', 987n],
  ["getFullYear('Europe/Berlin')", 2027n],
  ["getDayOfYear('Europe/Berlin')", 0n],
  ["getHours('Europe/Berlin')", 0n],
  ["getHours('America/New_York')", 18n],
  ["getMinutes('Asia/Kathmandu')", 15n],
  ["getHours('+02:30')", 2n],
  ["getMinutes('-02:31')", 59n],
  ["getHours('02:00')", 1n],
])('a timestamp: %s', (call, result) => {
  expect(evaluate(`${at}.${call}`)).toBe(result);
});

test('daylight saving time applies', () => {
  expect(evaluate("timestamp('2026-07-01T12:00:00Z').getHours('Europe/Berlin')")).toBe(14n);
  expect(evaluate("timestamp('2026-01-01T12:00:00Z').getHours('Europe/Berlin')")).toBe(13n);
});

test('the first and the last valid timestamp', () => {
  expect(evaluate("timestamp('0001-01-01T00:00:00Z').getFullYear()")).toBe(1n);
  expect(evaluate("timestamp('9999-12-31T23:59:59.999999999Z').getDayOfYear()")).toBe(364n);
  expect(failureOf("timestamp('9999-12-31T23:59:59Z') + duration('1s')")).toBe('timestamp overflow');
});

test.each([
  ["duration('90m').getHours()", 1n],
  ["duration('-90m').getMinutes()", -90n],
  ["duration('1.5s').getSeconds()", 1n],
  ["duration('1.5s').getMilliseconds()", 1500n],
  ["duration('1h2m3s4ms5us6ns') == duration('3723.004005006s')", true],
  ["timestamp('2026-01-01T00:00:00.000000001Z') > timestamp('2026-01-01T00:00:00Z')", true],
  ["timestamp('2026-01-01T01:00:00+01:00') == timestamp('2026-01-01T00:00:00Z')", true],
  ["timestamp('2026-01-02T00:00:00Z') - duration('24h') == timestamp('2026-01-01T00:00:00Z')", true],
  ["duration('1h') + timestamp('2026-01-01T00:00:00Z') == timestamp('2026-01-01T01:00:00Z')", true],
])('%s', (expression, result) => {
  expect(evaluate(expression)).toBe(result);
});

test('an unknown time zone is an error', () => {
  expect(failureOf(`${at}.getHours('Mars/Olympus')`)).toBe('unknown time zone Mars/Olympus');
});

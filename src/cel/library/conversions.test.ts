import { expect, test } from 'vitest';
import { evaluate, failureOf } from '../../../test/support/cel/evaluate.ts';

test.each([
  ["int('-42')", -42n],
  ['int(3.9)', 3n],
  ['int(-3.9)', -3n],
  ['int(7u)', 7n],
  ["int(timestamp('1970-01-01T00:01:00.9Z'))", 60n],
  ["int('9223372036854775807')", 9223372036854775807n],
  ['double(9007199254740993)', 9007199254740992],
  ["double('1e3')", 1000],
  ["double('-inf')", -Infinity],
  ["uint('18446744073709551615') == 18446744073709551615u", true],
  ['string(18446744073709551615u)', '18446744073709551615'],
  ['string(1000000.0)', '1e+06'],
  ['string(123456.5)', '123456.5'],
  ['string(0.0001)', '0.0001'],
  ['string(0.00001)', '1e-05'],
  ['string(1.0 / 0.0)', '+Inf'],
  ["string(b'h\\xc3\\xa9')", 'hé'],
  ["string(duration('1h30m0.5s'))", '5400.5s'],
  ["string(duration('-1ms'))", '-0.001s'],
  ["string(timestamp('2026-01-02T03:04:05.123456789+01:00'))", '2026-01-02T03:04:05.123456789+01:00'],
  ['string(timestamp(0))', '1970-01-01T00:00:00Z'],
  ["bool('T')", true],
  ["bytes('hé') == b'h\\xc3\\xa9'", true],
  ["b'hé' == bytes('hé')", true],
  ["type(duration('1s')) == google.protobuf.Duration", true],
  ['type(null) == null_type', true],
  ['type(type(1)) == type', true],
  ["size('') == 0 && size({'a': 1}) == 1 && b'abc'.size() == 3", true],
])('%s', (expression, result) => {
  expect(evaluate(expression)).toEqual(result);
});

test.each([
  ["int('1.5')", "type conversion error from 'string' to 'int'"],
  ["int('9223372036854775808')", "type conversion error from 'string' to 'int'"],
  ['int(9223372036854775807.0)', 'integer overflow'],
  ['int(0.0 / 0.0)', 'integer overflow'],
  ['int(18446744073709551615u)', 'integer overflow'],
  ['uint(-1)', 'unsigned integer overflow'],
  ["uint('-1')", "type conversion error from 'string' to 'uint'"],
  ["bool('yes')", "type conversion error from 'string' to 'bool'"],
  ["double('x')", "type conversion error from 'string' to 'double'"],
  ["string(b'\\xff')", 'invalid UTF-8 in bytes, cannot convert to string'],
  ['timestamp(text)', "type conversion error from 'string' to 'google.protobuf.Timestamp'"],
  ['timestamp(253402300800)', 'timestamp overflow'],
  ['duration(text)', "type conversion error from 'string' to 'google.protobuf.Duration'"],
  ["duration('2562047h48m')", 'invalid duration argument'],
  ["timestamp('2026-02-29T00:00:00Z')", 'invalid timestamp argument'],
])('%s: %s', (expression, message) => {
  expect(failureOf(expression, { text: 'x' })).toBe(message);
});

/** Messages of libraries. Their values are in test/data/cel-matrix-1.37.jsonl as an API server gave them. */
import { expect, test } from 'vitest';
import { failureOf } from '../../../test/support/cel/evaluate.ts';

test.each([
  ["int('9223372036854775808')", "type conversion error from 'string' to 'int'"],
  ['int(9223372036854775807.0)', 'integer overflow'],
  ['uint(-1)', 'unsigned integer overflow'],
  ["string(b'\\xff')", 'invalid UTF-8 in bytes, cannot convert to string'],
  ['timestamp(text)', "type conversion error from 'string' to 'google.protobuf.Timestamp'"],
  ['duration(text)', "type conversion error from 'string' to 'google.protobuf.Duration'"],
  ["duration('2562047h48m')", 'invalid duration argument'],
  ["timestamp('2026-02-29T00:00:00Z')", 'invalid timestamp argument'],
  ["timestamp('2026-12-31T23:30:15Z').getHours('Mars/Olympus')", 'unknown time zone Mars/Olympus'],
  ["timestamp('9999-12-31T23:59:59Z') + duration('1s')", 'timestamp overflow'],
  ["semver('1.2')", '"1.2" is not a semantic version'],
  ["ip('fe80::1%eth0')", 'IP address "fe80::1%eth0" with zone value is not allowed'],
  ["ip('::ffff:1.2.3.4')", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'],
  [
    "url('not a url')",
    'URL parse error during conversion from string: parse "not a url": invalid URI for request',
  ],
  ['[1].slice(0, 2)', 'cannot slice(0, 2), list is length 1'],
  ['lists.range(1000001)', 'lists.range: size 1000001 exceeds maximum allowed (1000000)'],
  ["dyn(['a']).reverse().max()", 'no such overload: max(list)'],
  ["dyn([1, 'a']).sort()", 'list elements must have the same type'],
  ["['a'].sum()", "found no matching overload for 'sum' applied to 'list(string).()'"],
  ['optional.none().value()', 'optional.none() dereference'],
  ['object.nope.?x', 'no such key: nope'],
  ['[?1]', "expected type 'optional_type(dyn)' but found 'int'"],
])('%s: %s', (expression, message) => {
  expect(failureOf(expression, { text: 'x', list: ['a'], object: {} })).toBe(message);
});

import { expect, test } from 'vitest';
import { evaluate, failureOf } from '../../../test/support/cel/evaluate.ts';

test.each([
  ["'hello'.charAt(4)", 'o'],
  ["'😀é'.charAt(1)", 'é'],
  ["'hello mellow'.indexOf('jello')", -1n],
  ["'hello mellow'.indexOf('', 2)", 2n],
  ["'😀hello'.indexOf('hello')", 1n],
  ["'😀😀x'.indexOf('x', 1)", 2n],
  ["'a'.indexOf('a', 20)", -1n],
  ["'hello mellow'.lastIndexOf('ello')", 7n],
  ["'hello mellow'.lastIndexOf('ello', 6)", 1n],
  ["'hello'.lastIndexOf('')", 5n],
  ["'😀a😀a'.lastIndexOf('a')", 3n],
  ["''.lastIndexOf('a')", -1n],
  ["'TacoCÆt Xii'.lowerAscii()", 'tacocÆt xii'],
  ["'TacoCÆt Xii'.upperAscii()", 'TACOCÆT XII'],
  ["'aaa'.replace('a', '$&')", '$&$&$&'],
  ["'ab'.replace('', '-')", '-a-b-'],
  ["'ab'.replace('', '-', 2)", '-a-b'],
  ["'ab'.replace('a', 'x', -1)", 'xb'],
  ["'a,b,c'.split(',', -1)", ['a', 'b', 'c']],
  ["'a,b,c'.split(',', 1)", ['a,b,c']],
  ["'a😀'.split('')", ['a', '😀']],
  ["'abc'.split('', 2)", ['a', 'bc']],
  ["'😀abc'.substring(1, 3)", 'ab'],
  ["'abc'.substring(3)", ''],
  ["'\\u00a0\\t trim\\u200b\\n\\u3000'.trim()", 'trim\u200b'],
  ["'\\ufeffa'.trim()", '\ufeffa'],
  ['[].join()', ''],
  ["['x', 'y'].join(', ')", 'x, y'],
  [String.raw`strings.quote('a\n\t\\"é😀')`, String.raw`"a\n\t\\\"é😀"`],
])('%s', (expression, result) => {
  expect(evaluate(expression)).toEqual(result);
});

test.each([
  ["'abc'.charAt(4)", 'index out of range: 4'],
  ["'abc'.charAt(-1)", 'index out of range: -1'],
  ["'abc'.indexOf('b', -1)", 'index out of range: -1'],
  ["'abc'.substring(2, 1)", 'invalid substring range. start: 2, end: 1'],
  ["'abc'.substring(1, 4)", 'index out of range: 4'],
])('%s: %s', (expression, message) => {
  expect(failureOf(expression)).toBe(message);
});

test('a string of 100,000 spaces with a suffix is trimmed in linear time', () => {
  expect(evaluate('text.trim().size()', { text: `x${' '.repeat(100_000)}y` })).toBe(100_002n);
});

test.each([
  ["'%s %s %s'.format(['a', 1, 1.5])", 'a 1 1.5'],
  ["'%d%% of %d'.format([5, 7u])", '5% of 7'],
  ["'%x %X %o %b'.format([255, 255, 8, -5])", 'ff FF 10 -101'],
  ["'%x %X %b'.format(['hello', b'hi', true])", '68656c6c6f 6869 1'],
  ["'%.3f %f'.format([12345.6789, -0.5])", '12,345.679 -0.500000'],
  ["'%.0f %.0f'.format([0.5, 1.5])", '0 2'],
  ["'%.2e'.format([1052.032911275])", '1.052033×10⁰³'],
  ["'%e'.format([0.00012])", '1.200000×10⁻⁰⁴'],
  ["'%s'.format([['a', 1, 2.5, null, true, b'x', [1u]]])", '["a", 1, 2.500000, null, true, b"x", [1]]'],
  ["'%s'.format([{'b': 1, 'a': ['x']}])", '{"a":["x"], "b":1}'],
  ["'%s'.format([{2: 'x', 1: duration('90s')}])", '{1:duration("90s"), 2:"x"}'],
  ["'%s %s'.format([timestamp('2026-01-02T03:04:05.5Z'), duration('1h')])", '2026-01-02T03:04:05.5Z 3600s'],
  ["'%s'.format([type(1)])", 'int'],
  ["'a\\n%s'.format(['b'])", 'a\nb'],
])('%s', (expression, result) => {
  expect(evaluate(expression)).toBe(result);
});

test.each([
  ["'%s'.format([])", 'index 0 out of range'],
  [
    "'%d'.format(['a'])",
    'error during formatting: decimal clause can only be used on integers, was given string',
  ],
  [
    "'%f'.format([1])",
    'error during formatting: fixed-point clause can only be used on doubles, was given int',
  ],
  ["'%q'.format([1])", 'could not parse formatting clause: unrecognized formatting clause "q"'],
  ["'%'.format([1])", 'could not parse formatting clause: unexpected end of string'],
  ["'%.999f'.format([1.0])", 'error during formatting: precision must be at most 100, was 999'],
])('%s: %s', (expression, message) => {
  expect(failureOf(expression)).toBe(message);
});

test.each([
  ["'abc 123'.find('[0-9]*')", ''],
  ["'abc 123'.find('[0-9]+')", '123'],
  ["'123 abc 456'.findAll('[0-9]*')", ['123', '', '', '', '', '456']],
  ["'123 abc 456'.findAll('[0-9]*', 1)", ['123']],
  ["'123 abc 456'.findAll('xyz')", []],
  ["'aXbX'.findAll('(a|b)X', 0)", []],
  ["'😀😀'.findAll('.')", ['😀', '😀']],
])('%s has the result of Go', (expression, result) => {
  expect(evaluate(expression)).toEqual(result);
});

test('a pattern that is not RE2 is an error: a literal at compile time, any other at run time', () => {
  expect(failureOf("'a'.find('(?=a)')")).toContain('invalid find argument');
  expect(failureOf("'a'.matches(pattern)", { pattern: '(?=a)' })).toContain('(?=');
  expect(failureOf("'a'.find(pattern)", { pattern: '(?=a)' })).toContain('Illegal regex');
});

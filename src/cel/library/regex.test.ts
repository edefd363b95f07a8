import { expect, test } from 'vitest';
import { evaluate, failureOf } from '../../../test/support/cel/evaluate.ts';

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

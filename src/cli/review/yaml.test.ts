import { expect, test } from 'vitest';

import { createLocate } from './yaml.ts';

/** The text at the place in the expression that this file holds, and its line. */
function textAt(text: string, expression: string, wanted: string): string {
  const index = expression.indexOf(wanted);
  const before = expression.slice(0, index).split('\n');
  const place = { expression, line: before.length, column: Array.from(before.at(-1) ?? '').length + 1 };
  const spot = createLocate(text, 0)('spec.rules[0].expression', place);
  if (spot === undefined) throw new Error('not found');
  return (text.split('\n')[spot.line - 1] ?? '').slice(spot.column - 1);
}

const under = (scalar: string) => `# a comment\nspec:\n  rules:\n    - expression: ${scalar}\n`;

test.each([
  ['plain', "object.spec.a == 'b' && startswith(x)", "object.spec.a == 'b' && startswith(x)"],
  ['on several lines', "a == 'b' &&\n        startswith(x)", "a == 'b' && startswith(x)"],
  ['single-quoted', "'a == ''b'' && startswith(x)'", "a == 'b' && startswith(x)"],
  ['double-quoted', '"a == \\"b\\"\\n && startswith(x)"', 'a == "b"\n && startswith(x)'],
  ['literal', '|\n        a == 1 &&\n          startswith(x)', 'a == 1 &&\n  startswith(x)\n'],
  ['folded', '>-\n        a == 1 &&\n        startswith(x)', 'a == 1 && startswith(x)'],
  ['with characters beyond the BMP', '"a == \'😀\' && startswith(x)"', "a == '😀' && startswith(x)"],
])('a place in an expression is found in the file: %s', (_style, scalar, expression) => {
  expect(textAt(under(scalar), expression, 'startswith')).toMatch(/^startswith\(x\)/);
});

test('JSON has places too, and so have the items of a list and aliases', () => {
  const json = JSON.stringify({ items: [{ spec: { a: ['x', 'y'] } }] }, null, 2);
  expect(createLocate(json, 0)('items[0].spec.a[1]')).toEqual({ line: 7, column: 11 });
  const yaml = 'base: &base\n  path: spec.x\nspec:\n  rules: [*base]\n';
  expect(createLocate(yaml, 0)('spec.rules[0].path')).toEqual({ line: 2, column: 9 });
});

test('a field that the file lacks is at the deepest part that exists', () => {
  expect(createLocate(under('a'), 0)('spec.rules[0].message')).toEqual({ line: 4, column: 7 });
  expect(createLocate(under('a'), 0)('spec.match.operations')).toEqual({ line: 2, column: 1 });
  expect(createLocate('a: 1\n---\nspec: {}\n', 1)('spec.match')).toEqual({ line: 3, column: 1 });
  expect(createLocate('a: 1\n', 7)('spec.match')).toBeUndefined();
});

import { expect, test } from 'vitest';
import { parseExpression } from './parse.ts';
import { readPaths } from './used-fields.ts';

/** A path as text: `?` before a field that may be missing. */
const pathsOf = (text: string) =>
  readPaths(parseExpression(text).expression, 'object').map((steps) =>
    steps.map(({ name, strict }) => `${strict ? '' : '?'}${name}`).join('.'),
  );

test.each([
  ['object.spec.tier', ['spec.tier']],
  ['object.?spec.tier', ['?spec.?tier']],
  ['object.spec.?tier', ['spec.?tier']],
  ['has(object.spec.tier)', ['spec.?tier']],
  ['object["a/b"][?"c"]', ['a/b.?c']],
  ['object.list[0].name', ['list']],
  ['object.map[object.key].x', ['map', 'key']],
  ['object.a + object.b', ['a', 'b']],
  ['object.list.exists(x, x.name == object.name)', ['list', 'name']],
  ['[object].size() + request.object', ['']],
  ['{"a": object.b}', ['b']],
])('%s', (text, paths) => {
  expect(pathsOf(text)).toEqual(paths);
});

test('the text of complete parts is known', () => {
  const { expression, textOf } = parseExpression('a  ? [ -1, "x" ] : f(b , (c ? d : e)) // end');
  if (expression.kind !== 'call') throw new Error(expression.kind);
  const [condition, list, call] = expression.arguments;
  if (condition === undefined || list?.kind !== 'list' || call?.kind !== 'call')
    throw new Error('other parts');
  expect([expression, condition, list, call].map(textOf)).toEqual([
    'a  ? [ -1, "x" ] : f(b , (c ? d : e))',
    'a',
    '[ -1, "x" ]',
    'f(b , (c ? d : e))',
  ]);
  expect(list.items.map(({ value }) => textOf(value))).toEqual(['-1', '"x"']);
  expect(call.arguments.map(textOf)).toEqual(['b', '(c ? d : e)']);
});

import { expect, test } from 'vitest';
import { parseJson } from '../json/json.ts';
import { CelError, compileCel } from './cel.ts';
import { evaluate, failureOf } from '../../test/support/cel/evaluate.ts';

const noOverload = (name: string, types: string) =>
  `found no matching overload for '${name}' applied to '${types}'`;
const noRange = (type: string) =>
  `expression of type '${type}' cannot be range of a comprehension (must be list, map, or dynamic)`;

test.each([
  ['9223372036854775807 + 1', 'integer overflow'],
  ['-9223372036854775808 - 1', 'integer overflow'],
  ['-9223372036854775808 % -1', 'integer overflow'],
  ['18446744073709551615u + 1u', 'unsigned integer overflow'],
  ['9223372036854775808', 'invalid int literal'],
  ['1 / 0', 'division by zero'],
  ["duration('2000000h') + duration('2000000h')", 'duration overflow'],
])('%s: %s', (expression, message) => {
  expect(failureOf(expression)).toBe(message);
});

test.each([
  ["{'a': 'x', 'b': 'x'}.transformMapEntry(k, v, {v: k})", 'insert failed: key x already exists'],
  ['[0].exists_one(x, 1 / x == 1)', 'division by zero'],
  ['[].all(i, i, i < i)', 'duplicate variable name: i'],
  ['[1, 2].transformList(i, v, v % 2 == 0 ? [v] : v)', noOverload('_?_:_', '(bool, list(int), int)')],
  ["{'a': 1}.transformMapEntry(k, v, 'bad filter', {v: k})", noOverload('_?_:_', '(string, dyn, dyn)')],
  ['has(object)', 'invalid argument to has() macro'],
  ['object.a.all(x, true)', "got 'int', expected iterable type"],
  ['1.all(x, true)', noRange('int')],
  ['[1].all(x, x)', noOverload('_&&_', '(bool, int)')],
])('%s: %s', (expression, message) => {
  expect(failureOf(expression, { object: { a: 1 } })).toBe(message);
});

test.each([
  ['false && object.nope', false],
  ['object.nope && false', false],
  ['true || object.nope', true],
  ['object.nope || true', true],
  ['[0, 1].exists(x, 1 / x == 1) && [1, 0].all(x, x > 0 || 1 / x == 1 || true)', true],
  ['true ? 1 : object.nope', 1n],
])('a failing operand that does not affect the result is ignored: %s', (expression, result) => {
  expect(evaluate(expression, { object: {} })).toBe(result);
});

test.each([
  ['object.nope || false', 'no such key: nope'],
  ['object.text && true', 'no such overload'],
  ['object.list.nope', "unsupported index type 'string' in list"],
  ['object.list[1.5]', 'unsupported index value 1.5 in list'],
  ['object.list[-1]', 'index out of bounds: -1'],
  ['object.text.nope', 'no such key: nope'],
  ['object.text < 1', 'no such overload'],
  ['object.text.startsWith(1)', noOverload('startsWith', 'dyn.(int)')],
  ["object.list.startsWith('a')", 'no such overload: startsWith(list, string)'],
  ['nope', "undeclared reference to 'nope' (in container '')"],
  ['sets.nope([1])', "undeclared reference to 'sets' (in container '')"],
  ['size(1, 2)', noOverload('size', '(int, int)')],
  ["'a'.foo", "type 'string' does not support field selection"],
  ['1 +', 'Syntax error: unexpected end of expression'],
])('%s: %s', (expression, message) => {
  expect(failureOf(expression, { object: { text: 'a', list: [1] } })).toBe(message);
});

test('a message points to line and column', () => {
  const expression = "1 == 1 &&\n  // a comment?\n  '😀' + // another\n 1 == 'a'";
  expect(() => compileCel(expression, [])).toThrow(CelError);
  try {
    compileCel(expression, []);
  } catch (error) {
    expect(error).toMatchObject({ position: { line: 3, column: 7 } });
  }
});

test('the result must have the requested type', () => {
  const compile = (expression: string, result: string) => compileCel(expression, ['object'], { result });
  expect(() => compile('1', 'bool')).toThrow('must evaluate to bool but got int');
  expect(() => compile('[1]', 'list<string>')).toThrow('must evaluate to list<string> but got list(int)');
  expect(compile('[1]', 'list<int>').evaluate({})).toEqual([1n]);
  expect(compile('object.a', 'bool').evaluate({ object: { a: true } })).toBe(true);
  expect(() => compile('object.a', 'bool').evaluate({ object: { a: 1 } })).toThrow(
    new CelError('must evaluate to bool but got int'),
  );
});

test('literals of different types may be mixed, unless the caller forbids it', () => {
  expect(evaluate("{'a': 1, 'b': 'x'}")).toEqual(
    new Map<string, unknown>([
      ['a', 1n],
      ['b', 'x'],
    ]),
  );
  const uniform = (expression: string) => compileCel(expression, [], { uniformLiterals: true });
  expect(() => uniform("[1, 'a']")).toThrow("expected type 'int' but found 'string'");
  expect(() => uniform("{'a': 1, 'b': 'x'}")).toThrow("expected type 'int' but found 'string'");
  expect(uniform("'%s %d'.format(['a', 1])").evaluate({})).toBe('a 1');
});

test('variables have their declared types', () => {
  const program = compileCel('count + 1', { count: 'int' });
  expect(program.type).toBe('int');
  expect(program.evaluate({ count: 2 })).toBe(3n);
  expect(() => compileCel("count + 'a'", { count: 'int' })).toThrow(noOverload('_+_', '(int, string)'));
  expect(() => compileCel('count', { count: 'integer' })).toThrow('CEL type "integer" not found');
  expect(() => program.evaluate({})).toThrow('no such attribute(s): count');
});

test('keys with a meaning in JavaScript are plain data', () => {
  const object = parseJson('{ "__proto__": 1, "constructor": 2 }');
  expect(evaluate("object['__proto__'] + object.constructor", { object })).toBe(3n);
  expect(evaluate("{'__proto__': 1}['__proto__']")).toBe(1n);
  expect(evaluate('has(object.valueOf) || "toString" in object', { object })).toBe(false);
  expect(evaluate('object == {"__proto__": 1, "constructor": 2}', { object })).toBe(true);
});

test('bindings that an expression does not read are not accessed', () => {
  const bindings = {
    get unread(): unknown {
      throw new Error('unexpected read');
    },
    read: 1,
  };
  expect(compileCel('read', ['read', 'unread']).evaluate(bindings)).toBe(1n);
});

test('objects of 10,000 levels are compared without a stack overflow', () => {
  const deep = () => parseJson(`${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`);
  expect(evaluate('a == b && has(a.a.a)', { a: deep(), b: deep() })).toBe(true);
});

test('an expression of excessive length or depth is rejected before it runs', () => {
  expect(failureOf(`${'('.repeat(500)}1${')'.repeat(500)}`)).toBe(
    'the expression nests more than 250 levels deep',
  );
  expect(failureOf(`[${Array.from({ length: 20_000 }, () => '1').join(',')}]`)).toBe(
    'the expression has more than 10000 parts',
  );
  expect(evaluate(Array.from({ length: 1000 }, () => 'true').join(' && '))).toBe(true);
});

test('nested templates compile in a moment', () => {
  // Once for each level: twice would never end.
  const nested = Array.from({ length: 40 }).reduce<string>((inner) => `'%s'.format([${inner}])`, "'a'");
  expect(evaluate(nested)).toBe('a');
});

import { expect, test } from 'vitest';
import { createCelBudget } from './values/values.ts';
import { CelError, compileCel } from './cel.ts';
import { evaluate } from '../../test/support/cel/evaluate.ts';

const list = Array.from({ length: 1000 }, (_, index) => index);
const exceeded = new CelError('operation cancelled: actual cost limit exceeded');

/** An expression that doubles its text `times` times. */
const doubled = (times: number): string =>
  times === 0 ? "'0123456789'" : `optional.of(${doubled(times - 1)}).optMap(s, s + s).value()`;

test.each([
  ['nested macros', 'list.all(x, list.all(y, list.all(z, x + y + z >= 0)))'],
  ['macros that swallow errors', 'list.exists(x, list.exists(y, 1 / 0 == x + y))'],
  ['errors in operands of ||', 'list.all(x, list.all(y, 1 / 0 == x || true))'],
  ['an accumulating list', 'list.map(x, list.map(y, [x, y])).size() > 0'],
  ['a long range', 'lists.range(1000000).size() > 0'],
  ['nested lists', 'list.map(x, list).flatten().map(x, [x, x]).flatten().size() > 0'],
  ['string concatenations', "list.map(x, list.map(y, 'some text or other').join()).join().size() > 0"],
  ['string formatting', "list.map(x, '%s%s'.format([list, list])).join().size() > 0"],
  ['string replacements', "list.all(x, text.replace('a', 'bb').size() > 0)"],
  ['string splits', "list.all(x, text.split('').size() > 0)"],
  ['string searches', "list.all(x, !text.contains('bb'))"],
  ['patterns that come from values', "list.all(x, !text.matches('(a{100}){9}' + string(x)))"],
  ['patterns that match often', "list.all(x, text.findAll('a').size() > 0)"],
  ['comparisons of large objects', 'list.all(x, object == other)'],
  ['comparisons of lists', 'list.all(x, list.all(y, list == list2))'],
  ['sets', 'sets.equivalent(list, list2) && sets.equivalent(list2, list)'],
  ['comparisons of long strings', 'list.all(x, list.all(y, texts == texts2))'],
  ['the maximum of long strings', "list.all(x, list.all(y, texts.max() != ''))"],
  ['sizes of long strings', 'list.all(x, list.all(y, text2.size() > 0))'],
  ['sizes of large objects', 'list.all(x, list.all(y, map.size() > 0))'],
  ['large objects with one decisive key', 'list.all(x, list.all(y, map.exists(k, true)))'],
  ['reverse string searches', 'list.all(x, text.lastIndexOf(part) == -1)'],
  ['sorting', 'list.all(x, list.sort() == list)'],
  ['time zones', "list.all(x, list.all(y, timestamp(x * y).getHours('Europe/Berlin') >= 0))"],
  ['quantities', "list.all(x, list.all(y, quantity('1.5Gi').isGreaterThan(quantity('1'))))"],
  ['addresses', "list.all(x, list.all(y, cidr('2001:db8::/32').containsIP('2001:db8::1')))"],
])('%s exceed the budget', (_what, expression) => {
  const items = list.map((value) => ({ value, name: String(value), more: [value] }));
  const bindings = {
    list,
    list2: [...list],
    text: 'a'.repeat(100_000),
    text2: '中'.repeat(100_000),
    part: `${'a'.repeat(50_000)}b`,
    texts: Array.from({ length: 30 }, () => 'a'.repeat(100_000)),
    texts2: Array.from({ length: 30 }, () => ['a'.repeat(99_999), 'a'].join('')),
    map: Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`key ${index}`, index])),
    object: { items },
    other: { items: items.map((item) => ({ ...item })) },
  };
  const program = compileCel(expression, Object.keys(bindings));
  expect(() => program.evaluate(bindings)).toThrow(exceeded);
});

test('a string that doubles exceeds the budget before it fills the memory', () => {
  expect(evaluate(`${doubled(10)}.size()`)).toBe(10_240n);
  expect(() => evaluate(`${doubled(30)}.size()`)).toThrow(exceeded);
});

test('another operand cannot hide an exceeded budget', () => {
  const budget = createCelBudget(50);
  const program = compileCel('list.all(x, x >= 0) || true', ['list']);
  expect(() => program.evaluate({ list }, budget)).toThrow(exceeded);
  expect(budget.remaining).toBe(0);
});

test('expressions can share one budget', () => {
  const budget = createCelBudget(10_000);
  const program = compileCel('list.all(x, x >= 0)', ['list']);
  expect(program.evaluate({ list }, budget)).toBe(true);
  expect(budget.remaining).toBeGreaterThan(0);
  expect(() => program.evaluate({ list }, budget)).toThrow(exceeded);
  expect(() => compileCel('1 + 1', []).evaluate({}, budget)).toThrow(exceeded);
});

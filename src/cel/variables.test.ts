import { expect, test } from 'vitest';
import { celValue, lazyCelMap } from './values/values.ts';
import { CelError, compileCel } from './cel.ts';
import { evaluate } from '../../test/support/cel/evaluate.ts';

test('fields that an expression does not read are not converted', () => {
  const object = {
    spec: {
      units: 1,
      get large(): unknown {
        throw new Error('unexpected read');
      },
    },
  };
  expect(evaluate('object.spec.units == 1', { object })).toBe(true);
});

test('an array is converted once, and converts back to itself', () => {
  const list = [1, [2], { a: 3 }];
  expect(celValue(list)).toEqual([1n, [2n], { a: 3 }]);
  expect(celValue(list)).toBe(celValue(list));
  expect(celValue(celValue(list))).toBe(celValue(list));
});

test.each<[string, (list: unknown[]) => void]>([
  ['an item', (list) => void (list[0] = 3)],
  ['an item of an inner list', (list) => void (list[1] as unknown[]).push(1)],
  ['its length', (list) => void list.push(3)],
  ['a text that becomes a number', (list) => void (list[2] = 3)],
])('an array that changes between two evaluations is converted again: %s', (_what, change) => {
  const list = [1, [2], 'x'];
  const text = () =>
    JSON.stringify(evaluate('object.list', { object: { list } }), (_key, value: unknown) =>
      typeof value === 'bigint' ? Number(value) : value,
    );
  expect(text()).toBe(JSON.stringify(list));
  change(list);
  expect(text()).toBe(JSON.stringify(list));
});

test('a variable may be an object whose fields are declared one by one', () => {
  const schema = {
    type: 'object',
    properties: { spec: { type: 'object', properties: { size: { type: 'integer' } } } },
  };
  const variables = {
    refs: { fields: { datacenter: { schema }, disks: { items: { schema } } } },
    variables: { fields: { limit: 'int', names: 'list(string)' } },
  } as const;
  const compile = (expression: string) => compileCel(expression, variables);
  expect(compile('refs.datacenter.spec.size + variables.limit').type).toBe('int');
  expect(compile('refs.disks.map(d, d.spec.size)').type).toBe('list(int)');
  expect(compile('has(refs.datacenter)').type).toBe('bool');
  expect(() => compile('refs.datacentre')).toThrow(
    "undefined field 'datacentre' in refs: did you mean 'datacenter'?",
  );
  expect(() => compile('variables.names + 1')).toThrow(
    "found no matching overload for '_+_' applied to '(list(string), int)'",
  );
});

test('the values of a lazy map are computed once, when they are read', () => {
  const made: string[] = [];
  const variables = lazyCelMap(
    new Map<string, () => unknown>([
      ['a', () => made.push('a') && 1.0],
      [
        'b',
        () => {
          throw new CelError('b fails');
        },
      ],
    ]),
  );
  const run = (expression: string) => compileCel(expression, ['variables']).run({ variables });
  expect(run('variables.a + variables.a')).toBe(2);
  expect(made).toEqual(['a']);
  expect(() => run('variables.b')).toThrow(new CelError('b fails'));
  expect(run('variables.a == 2.0 || true || variables.b')).toBe(true);
  expect(() => run('variables.c')).toThrow(new CelError('no such key: c'));
  expect(run("variables.size() == 2 && 'b' in ['b']")).toBe(true);
});

test('a double from an expression stays a double in a map', () => {
  const variables = lazyCelMap(new Map([['ratio', () => evaluate('1.5 * 2.0')]]));
  const program = compileCel('variables.ratio * 1.5', ['variables']);
  expect(program.run({ variables })).toBe(4.5);
});

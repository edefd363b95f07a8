/** From what an author's functions return to the keys of passes. */
import { expect, test } from 'vitest';

import { compileController } from './compile-controller.ts';
import { defineController } from './controller.ts';
import { keysOf, type WatchSource } from './watch-map.ts';

const WATCH = { apiGroups: ['example.com'], apiVersions: ['v1'], resources: ['teams'] } as const;
const compiled = (watches: readonly WatchSource[]) =>
  compileController(
    'teams',
    defineController({ name: 'teams', watch: WATCH, watches, reconcile: () => undefined }),
  );

test.each([true, false, undefined, 'yes'])('only false drops a change: `when` returns %j', (value) => {
  const source = { kind: 'secrets', when: () => value as boolean, map: () => [] };
  expect(compiled([source]).watches[0]?.when?.({}, {})).toBe(value !== false);
});

test.each([[[true, false]], [[false, true]]])(
  'a kind is read with its content if one entry needs it: %j',
  (order) => {
    const watches = order.map((metadataOnly) => ({
      kind: { resource: 'secrets', metadataOnly },
      map: () => [],
    }));
    const { reads } = compiled(watches);
    expect(reads.filter(({ resource }) => resource === 'secrets')).toMatchObject([{ metadataOnly: false }]);
  },
);

test('the objects of the controller itself are read with their content', () => {
  const kind = { resource: 'teams', apiGroup: 'example.com', metadataOnly: true };
  const { reads } = compiled([{ kind, map: () => [] }]);
  expect(reads).toMatchObject([{ resource: 'teams', metadataOnly: false }]);
});

const changed = { kind: 'Secret', metadata: { namespace: 'shop', name: 's' } };
const many = (count: number) => Array.from({ length: count }, (_item, index) => ({ name: `t${index}` }));

test('the keys have the namespace of the changed object, unless `map` names one', () => {
  const refs = [{ name: 'a' }, { name: 'a', namespace: 'shop' }, { name: 'b', namespace: 'other' }];
  expect(keysOf(refs, changed, true)).toEqual(['shop/a', 'other/b']);
  expect(keysOf(refs, changed, false)).toEqual(['a', 'b']);
});

test.each<[string, unknown, string]>([
  ['no list', { name: 'a' }, 'map: return a list of { name, namespace }'],
  ['a promise', Promise.resolve([]), 'map: return a list of { name, namespace }, not a promise'],
  ['no name', [{}], 'map: each item needs a name'],
  ['a name with a slash', [{ name: 'x/a' }], 'map: "x/a" is not a name'],
  ['a namespace with a slash', [{ name: 'a', namespace: 'x/y' }], 'map: "x/y" is not a namespace'],
  ['too many objects', many(10_001), 'map: 10001 objects are too many; the limit is 10000'],
])('`map` that returns %s is refused', (_what, refs, message) => {
  expect(() => keysOf(refs, changed, true)).toThrow(new TypeError(message));
});

test('`map` can return as many objects as there are', () => {
  expect(keysOf(many(10_001), changed, true, () => 10_001)).toHaveLength(10_001);
  expect(keysOf([...many(9_000), ...many(9_000)], changed, true)).toHaveLength(9_000);
});

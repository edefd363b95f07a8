import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseJson } from '../../json/json.ts';
import type { Schema } from '../schema/schema.ts';
import { applyStrategicPatch } from './strategic-merge-patch.ts';
import { parsed, statusOf } from '../../../test/support/sandbox/failures.ts';

const ITEMS: Schema = {
  type: 'array',
  'x-kubernetes-patch-strategy': 'merge',
  'x-kubernetes-patch-merge-key': 'name',
};
const VALUES: Schema = { type: 'array', 'x-kubernetes-patch-strategy': 'merge' };
const ITEM: Schema = {
  type: 'object',
  properties: { name: { type: 'string' }, values: VALUES, map: { type: 'object' } },
};
const SCHEMA: Schema = {
  type: 'object',
  properties: {
    items: {
      ...ITEMS,
      items: { ...ITEM, properties: { ...ITEM.properties, items: { ...ITEMS, items: ITEM } } },
    },
    values: VALUES,
    atomic: { type: 'array' },
    map: { type: 'object', additionalProperties: { type: 'string' } },
    replaced: { type: 'object', 'x-kubernetes-patch-strategy': 'replace' },
    union: { type: 'object', 'x-kubernetes-patch-strategy': 'retainKeys' },
    lists: { type: 'object', additionalProperties: VALUES },
  },
};

const patched = (live: string, patch: string) =>
  JSON.stringify(applyStrategicPatch(parsed(live), parseJson(patch), SCHEMA));

describe('objects', () => {
  test.each([
    ['$patch: delete', '{"map":{"a":"1"}}', '{"map":{"$patch":"delete"}}', '{"map":{}}'],
    [
      'every key is data',
      '{"map":{"constructor":"1"}}',
      '{"map":{"constructor":null,"__proto__":"x"}}',
      '{"map":{"__proto__":"x"}}',
    ],
  ])('%s', (_what, live, patch, expected) => {
    expect(patched(live, patch)).toBe(expected);
  });
});

describe('lists of values', () => {
  test.each([
    [
      'take the order of the patch',
      '{"values":["a","b","c"]}',
      '{"values":["c","a"]}',
      '{"values":["b","c","a"]}',
    ],
    [
      'support deletions, additions and order together',
      '{"values":["a","b","s"]}',
      '{"$setElementOrder/values":["n","a"],"$deleteFromPrimitiveList/values":["b"],"values":["n"]}',
      '{"values":["n","a","s"]}',
    ],
  ])('%s', (_what, live, patch, expected) => {
    expect(patched(live, patch)).toBe(expected);
  });
});

describe('lists of objects', () => {
  const LIVE = '{"items":[{"name":"a","x":1},{"name":"s","x":2},{"name":"b","x":3}]}';
  test.each<[what: string, patch: string, expected: string | undefined]>([
    ['replace one item', '{"items":[{"name":"a","$patch":"replace"}]}', '[]'],
    [
      'take the given order, with server-only items in place',
      '{"$setElementOrder/items":[{"name":"b"},{"name":"a"}]}',
      '[{"name":"s","x":2},{"name":"b","x":3},{"name":"a","x":1}]',
    ],
    [
      'take the given order with new and deleted items',
      '{"$setElementOrder/items":[{"name":"n"},{"name":"a"}],"items":[{"name":"n"},{"name":"b","$patch":"delete"}]}',
      '[{"name":"s","x":2},{"name":"n"},{"name":"a","x":1}]',
    ],
  ])('%s', (_what, patch, expected) => {
    const { items } = applyStrategicPatch(parsed(LIVE), parseJson(patch), SCHEMA);
    expect(items).toEqual(expected === undefined ? undefined : parseJson(expected));
  });
});

describe('patches that cannot be applied', () => {
  test.each([
    ['[]', 400, 'json: cannot unmarshal array into Go value of type map[string]interface {}'],
    [
      '{"$setElementOrder/values":[2,3],"values":[3,2]}',
      500,
      "The order in patch list:\n[3 2]\n doesn't match $setElementOrder list:\n[2 3]\n",
    ],
  ])('%s', (patch, code, message) => {
    const live = parsed('{"values":[1],"items":[{"name":"a"}],"union":{},"lists":{"x":[]}}');
    expect(statusOf(() => applyStrategicPatch(live, parseJson(patch), SCHEMA))).toMatchObject({
      code,
      message,
    });
  });
});

test('a patch does not mutate the object and is idempotent', () => {
  const name = fc.constantFrom('a', 'b', 'c', 'd');
  const names = fc.uniqueArray(name);
  const items = names.chain((keys) =>
    fc.tuple(...keys.map((key) => fc.record({ name: fc.constant(key), x: fc.integer({ min: 0, max: 2 }) }))),
  );
  fc.assert(
    fc.property(items, items, names, (live, changed, deleted) => {
      const object = { items: live };
      const before = JSON.stringify(object);
      const kept = changed.filter((item) => !deleted.includes(item.name));
      const patch = {
        '$setElementOrder/items': kept.map((item) => ({ name: item.name })),
        items: [...kept, ...deleted.map((key) => ({ name: key, $patch: 'delete' }))],
      };
      const once = applyStrategicPatch(object, patch, SCHEMA);
      expect(JSON.stringify(object)).toBe(before);
      expect(applyStrategicPatch(once, patch, SCHEMA)).toEqual(once);
      // Items of the patch follow its order; server-only items keep theirs.
      const found = JSON.stringify(once.items);
      const order = (list: readonly { readonly name: string }[]) =>
        list.map((item) => found.indexOf(`"${item.name}"`));
      const untouched = live.filter(
        (item) => ![...kept.map((one) => one.name), ...deleted].includes(item.name),
      );
      for (const places of [order(kept), order(untouched)]) {
        expect(places).not.toContain(-1);
        expect(places).toEqual(places.toSorted((a, b) => a - b));
      }
    }),
  );
});

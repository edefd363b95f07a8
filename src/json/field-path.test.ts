import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { fill, formatPath, InvalidPath, parsePath, valueAt, valuesAt } from './field-path.ts';
import { isEqual, parseJson, type JsonObject, type JsonValue } from './json.ts';

const object: JsonObject = {
  metadata: { labels: { 'example.com/rack': 'r1' } },
  spec: { datacenter: 'fra1', list: ['a', 'b'], disks: [{ class: 'ssd' }, {}, { class: 'hdd' }], none: null },
};

describe('parsePath', () => {
  test.each([
    ['spec.datacenter', ['spec.datacenter="fra1"']],
    ['spec.disks[*].class', ['spec.disks[0].class="ssd"', 'spec.disks[2].class="hdd"']],
    ['metadata.labels["example.com/rack"]', ['metadata.labels["example.com/rack"]="r1"']],
    ['spec.list[0]', ['spec.list[0]="a"']],
    ['spec.list[*]', ['spec.list[0]="a"', 'spec.list[1]="b"']],
    ['["spec"]["datacenter"]', ['spec.datacenter="fra1"']],
    ['spec.none', ['spec.none=null']],
    ['spec.list[2]', []],
    ['spec.list.length', []],
    ['spec.datacenter.length', []],
    ['spec.datacenter[0]', []],
    ['spec.disks[*].class.more', []],
    ['spec[*]', []],
    ['spec.constructor', []],
    ['spec.__proto__', []],
    ['spec.toString.name', []],
  ])('%s leads to %j', (path, expected) => {
    const values = valuesAt(object, parsePath(path));
    expect(values.map((place) => `${place.path}=${JSON.stringify(place.value)}`)).toEqual(expected);
    expect(values.map(({ keys }) => valueAt(object, keys))).toEqual(values.map(({ value }) => value));
  });

  test.each([
    ['', 'empty'],
    ['.spec', 'at character 1'],
    ['spec.', 'at character 6'],
    ['spec..x', 'at character 6'],
    ['spec.x y', 'at character 7'],
    ['spec.[0]', 'at character 6'],
    ['spec.list[-1]', 'at character 11'],
    ['spec.list[', 'the path ends'],
    ['spec.list[*', 'at character 11'],
    ['spec["a\\x"]', 'not a JSON string'],
    ["spec['a']", 'double quotes'],
    ['spec.9', 'at character 6'],
    [`a${'.a'.repeat(64)}`, 'more than 64 parts'],
    ['a'.repeat(1025), '1024 characters'],
  ])('%j is refused, and the message gives the position', (path, message) => {
    expect(() => parsePath(path)).toThrow(InvalidPath);
    expect(() => parsePath(path)).toThrow(message);
  });

  test('reads what formatPath writes', () => {
    const key = fc.oneof(fc.string(), fc.constantFrom('__proto__', 'spec', 'a.b', 'a"]['), fc.nat(999));
    fc.assert(
      fc.property(fc.array(key, { minLength: 1, maxLength: 6 }), (keys) => {
        const { segments } = parsePath(formatPath(keys));
        const read = segments.map((segment) => {
          if (segment.kind === 'field') return segment.name;
          return segment.kind === 'index' ? segment.index : '*';
        });
        expect(read).toEqual(keys);
      }),
    );
  });
});

describe('fill', () => {
  const filled = (target: JsonObject, path: string, value: JsonValue = 'x') =>
    fill(target, parsePath(path), value);

  test.each([
    ['spec.tier', {}, { spec: { tier: 'x' } }],
    ['spec.tier', { spec: { tier: 'y' } }, { spec: { tier: 'y' } }],
    ['spec.tier', { spec: { tier: '' } }, { spec: { tier: '' } }],
    ['spec.tier', { spec: { tier: null } }, { spec: { tier: null } }],
    ['spec.tier', { spec: null }, { spec: null }],
    ['spec.tier', { spec: 'text' }, { spec: 'text' }],
    ['spec.tier', { spec: [] }, { spec: [] }],
    ['spec.a[*].b', { spec: { a: [{}, { b: 'y' }, 3] } }, { spec: { a: [{ b: 'x' }, { b: 'y' }, 3] } }],
    ['spec.a[1].b.c', { spec: { a: [{}, {}] } }, { spec: { a: [{}, { b: { c: 'x' } }] } }],
    ['spec.a[*].b', {}, {}],
    ['spec.a[*].b', { spec: { a: [] } }, { spec: { a: [] } }],
    ['spec.a[2].b', { spec: { a: [{}] } }, { spec: { a: [{}] } }],
    ['metadata.labels["a/b"]', { metadata: {} }, { metadata: { labels: { 'a/b': 'x' } } }],
  ] satisfies [string, JsonObject, JsonObject][])('%s on %j gives %j', (path, before, after) => {
    expect(filled(before, path)).toEqual(after);
    if (isEqual(before, after)) expect(filled(before, path)).toBe(before);
  });

  test.each(['__proto__', 'constructor', 'toString'])(
    'a field called %s is filled like any other',
    (name) => {
      const after = filled({}, `spec["${name}"].x`, 1);
      expect(JSON.stringify(after)).toBe(`{"spec":{"${name}":{"x":1}}}`);
      expect(({} as { x?: number }).x).toBeUndefined();
    },
  );

  test('an object 10,000 levels deep is no obstacle', () => {
    const before = parseJson(`{"spec":{"deep":${'['.repeat(10_000)}${']'.repeat(10_000)}}}`) as JsonObject;
    const after = filled(before, 'spec.tier');
    expect(valuesAt(after, parsePath('spec.tier')).map(({ value }) => value)).toEqual(['x']);
  });
});

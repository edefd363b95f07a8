import { describe, expect, test } from 'vitest';

import { isJsonObject, ownValue, type JsonObject, type JsonValue } from '../../json/json.ts';
import type { ConversionStep } from '../../api/conversion-policy.ts';
import type { CompiledConversion } from './compile.ts';
import {
  between,
  compiled,
  definitionOf,
  GROUP,
  server,
} from '../../../test/support/admission/conversion.ts';

const NEVER = new AbortController().signal;

const convert = async (
  object: JsonObject,
  to: string,
  conversion: CompiledConversion = compiled(),
): Promise<JsonObject> => await conversion.converter.convert(object, to, NEVER);

const keptIn = (object: JsonObject, version: string): unknown => {
  const metadata = ownValue(object, 'metadata');
  const annotations = isJsonObject(metadata) ? ownValue(metadata, 'annotations') : undefined;
  const text = isJsonObject(annotations)
    ? ownValue(annotations, `conversion.gatehouse.dev/${version}`)
    : undefined;
  return typeof text === 'string' ? (JSON.parse(text) as unknown) : undefined;
};

/** The object after a user has changed its spec. */
const withSpec = (object: JsonObject, change: (spec: JsonObject) => JsonValue): JsonObject => {
  const spec = ownValue(object, 'spec');
  return { ...object, spec: change(isJsonObject(spec) ? spec : {}) };
};

describe('steps', () => {
  const move = (from: string, to: string): ConversionStep => ({ move: { from, to } });
  const fill = (path: string): ConversionStep => ({ default: { path, value: 1 } });
  const set = (path: string, expression: string, when?: string): ConversionStep => ({
    set: { path, expression, ...(when === undefined ? {} : { when }) },
  });
  const step = (toHub: ConversionStep | readonly ConversionStep[], spec: JsonObject) =>
    convert(server('v1', { spec }), 'v2', between([toHub].flat(), [], { roundTrip: 'Lossy' }));

  test.each<[string, ConversionStep | readonly ConversionStep[], JsonObject, JsonObject]>([
    ['move renames', move('spec.a', 'spec.b'), { a: 1, c: 2 }, { b: 1, c: 2 }],
    ['move creates missing parents', move('spec.a', 'spec.x.y.z'), { a: 1 }, { x: { y: { z: 1 } } }],
    ['move removes a parent that becomes empty', move('spec.x.y', 'spec.a'), { x: { y: 1 } }, { a: 1 }],
    ['move replaces a null parent', move('spec.a', 'spec.b.c'), { a: 1, b: null }, { b: { c: 1 } }],
    [
      'move works in every element of a list',
      move('spec.l[*].a', 'spec.l[*].b.c'),
      { l: [{ a: 1 }, 'text', { x: 2 }] },
      { l: [{ b: { c: 1 } }, 'text', { x: 2 }] },
    ],
    ['default keeps null', fill('spec.a'), { a: null }, { a: null }],
    ['default creates no elements', fill('spec.l[*].a'), { l: [{}, 7] }, { l: [{ a: 1 }, 7] }],
    [
      'remove works in every element of a list',
      { remove: { path: 'spec.l[*].a' } },
      { l: [{ a: 1 }, { b: 2 }, 3] },
      { l: [{}, { b: 2 }, 3] },
    ],
    ['set keeps int64', set('spec.b', 'object.spec.a'), { a: 2n ** 60n }, { a: 2n ** 60n, b: 2n ** 60n }],
    ['set skips a missing value', set('spec.a', 'object.?spec.?b'), { a: 1 }, { a: 1 }],
    ['set skips null', set('spec.a', 'object.spec.b'), { a: 1, b: null }, { a: 1, b: null }],
    [
      'set reads the element',
      set('spec.l[*].b', 'item.a + size(object.spec.l)', 'has(item.a)'),
      { l: [{ a: 1 }, {}] },
      { l: [{ a: 1, b: 3 }, {}] },
    ],
    [
      'JavaScript property names are data',
      [move('spec["__proto__"]', 'spec["constructor"]'), fill('spec["toString"].x')],
      Object.fromEntries([['__proto__', 'p']]),
      Object.fromEntries<JsonValue>([
        ['constructor', 'p'],
        ['toString', { x: 1 }],
      ]),
    ],
  ])('%s', async (_what, toHub, spec, expected) => {
    expect(JSON.stringify((await step(toHub, spec)).spec, sortedKeys)).toBe(
      JSON.stringify(expected, sortedKeys),
    );
  });

  test('a step into a value that is not an object fails, and names the path and the remedy', async () => {
    await expect(step(move('spec.a', 'spec.b.c'), { a: 1, b: 'x' })).rejects.toThrow(
      /spec\.versions\[0\]\.toHub\[0\]: spec\.b is "x" and not an object, so spec\.b\.c cannot be written; fix the stored object/,
    );
  });

  test('an expression that fails is named with its cause and the remedy', async () => {
    const failing = step([{ remove: { path: 'spec.x' } }, set('spec.a', 'object.spec.b')], {});
    await expect(failing).rejects.toThrow(/toHub\[1\]: no such key: b; .*when: has\(object\.spec\.b\)/);
  });

  test.each([
    ['a number as an annotation', 'metadata.annotations["a"]', '7', 'wrap the expression in string'],
    ['a string that is not a valid label', 'metadata.labels["a"]', '"a b"', 'use an annotation'],
    ['a condition that is not a Boolean', 'spec.a', '1', 'when: must evaluate to bool but got string'],
  ])('%s is refused', async (_what, path, expression, message) => {
    const when = path === 'spec.a' ? 'object.spec.x' : undefined;
    await expect(step(set(path, expression, when), { x: 'x' })).rejects.toThrow(message);
  });

  test('the converter never modifies its input', async () => {
    const object = freeze(
      server('v1', { spec: { endpoint: 'a:80', disks: [{ name: 'x', size: '5Gi' }], rack: 'r' } }),
    );
    const there = freeze(await convert(object, 'v2'));
    await convert(there, 'v1');
    await convert(there, 'v3');
  });
});

describe('values that a version cannot represent', () => {
  const hub = server('v2', {
    spec: {
      address: { host: 'a', port: 80, zone: 'z' },
      tier: 'gold',
      replicas: 9007199254740993n,
      disks: [{ name: 'x', gigabytes: 5, class: 'ssd' }],
    },
  });

  test('are preserved in one annotation, named after the version that has them', async () => {
    const v1 = await convert(hub, 'v1');
    expect(v1.spec).toEqual({
      endpoint: 'a:80',
      tier: 'gold',
      replicas: 9007199254740993n,
      disks: [{ name: 'x', size: '5Gi', class: 'ssd' }],
    });
    expect(keptIn(v1, 'v2')).toEqual([
      { path: ['spec', 'address', 'zone'], value: 'z' },
      { path: ['spec', 'tier'], value: 'gold', derived: 'standard' },
      { path: ['spec', 'disks', { name: 'x' }, 'class'], value: 'ssd' },
    ]);
    expect(keptIn(await convert(v1, 'v2'), 'v2')).toBeUndefined();
  });

  test('are not restored if their parent is missing', async () => {
    const v1 = await convert(hub, 'v1');
    const without = withSpec(v1, () => ({ disks: [] }));
    expect((await convert(without, 'v2')).spec).toEqual({ tier: 'gold', disks: [] });
  });

  test('are restored in unchanged elements of a list without keys', async () => {
    const conversion = between(
      [{ set: { path: 'spec.sizes[*]', expression: 'item.split("Mi")[0]' } }],
      [{ set: { path: 'spec.sizes[*]', expression: 'item + "Mi"' } }],
    );
    const v2 = await convert(
      server('v1', { spec: { sizes: ['1Mi', '2MiB', '3Mi', '4MiX'] } }),
      'v2',
      conversion,
    );
    expect(v2.spec).toEqual({ sizes: ['1', '2', '3', '4'] });
    const back = async (sizes: readonly string[]) =>
      (
        await convert(
          withSpec(v2, () => ({ sizes })),
          'v1',
          conversion,
        )
      ).spec;
    expect(await back(['1', '2', '3', '4'])).toEqual({ sizes: ['1Mi', '2MiB', '3Mi', '4MiX'] });
    expect(await back(['0', '1', '2', '3', '4', '5'])).toEqual({
      sizes: ['0Mi', '1Mi', '2MiB', '3Mi', '4MiX', '5Mi'],
    });
    expect(await back(['4', '2'])).toEqual({ sizes: ['4MiX', '2MiB'] });
    expect(await back(['9', '4'])).toEqual({ sizes: ['9Mi', '4MiX'] });
    expect(await back([])).toEqual({ sizes: [] });
  });

  test('are dropped with roundTrip: Lossy, and values preserved earlier are still restored', async () => {
    const lossy = compiled({ roundTrip: 'Lossy' });
    expect((await convert(hub, 'v1', lossy)).metadata).toEqual(hub.metadata);
    const v1 = await convert(hub, 'v1');
    expect((await convert(v1, 'v2', lossy)).spec).toMatchObject({ tier: 'gold' });
  });

  test('are refused if they are too large for an annotation', async () => {
    const large = server('v2', { spec: { tuning: { text: 'x'.repeat(300_000) } } });
    await expect(convert(large, 'v1')).rejects.toThrow(
      /all annotations would have 300\d+ bytes, more than 262144\..*roundTrip: Lossy/,
    );
  });

  test('are refused if the object could not be converted back', async () => {
    const conversion = between(
      [{ remove: { path: 'spec.a' } }],
      [{ set: { path: 'spec.a', expression: 'object.spec.b' } }],
    );
    await expect(convert(server('v1', { spec: { a: 1 } }), 'v2', conversion)).rejects.toThrow(
      /could not be converted back to v1: spec\.versions\[0\]\.fromHub\[0\]: no such key: b/,
    );
  });
});

describe('a preserved annotation written by a user', () => {
  const written = (text: string, spec: JsonObject = { endpoint: 'a:80' }) =>
    convert(server('v1', { spec }, { annotations: { 'conversion.gatehouse.dev/v2': text } }), 'v2');
  const entries = (...kept: readonly object[]) => JSON.stringify(kept);

  test.each([
    ['invalid JSON', '{'],
    ['a value that is not a list', '{"path":["spec"]}'],
    ['no paths', '[1,null,{},{"path":"spec"},{"path":[]},{"path":[1]},{"path":[{"name":"x"}],"value":1}]'],
    [
      'a type that the schema refuses',
      entries(
        { path: ['spec', 'address'], value: 'x', derived: { host: 'a', port: 80 } },
        { path: ['spec', 'replicas'], value: '7' },
      ),
    ],
    [
      'a field that the schema lacks',
      entries({ path: ['spec', 'nothing'], value: 1 }, { path: ['nothing'], value: 1 }),
    ],
    ['the name', entries({ path: ['metadata', 'name'], value: 'x', derived: 'db' })],
    [
      'the kind',
      entries({ path: ['kind'], value: 'X', derived: 'Server' }, { path: ['apiVersion'], value: 'X' }),
    ],
    [
      'an invalid label',
      entries(
        { path: ['metadata', 'labels', 'a b'], value: 'x' },
        { path: ['metadata', 'labels', 'a'], value: 'x y' },
        { path: ['metadata', 'labels', 'b'], value: 1 },
      ),
    ],
    [
      'Gatehouse annotations',
      entries({ path: ['metadata', 'annotations', 'conversion.gatehouse.dev/v9'], value: 'x' }),
    ],
    ['a path of excessive length', entries({ path: Array.from({ length: 50_000 }, () => 'spec'), value: 1 })],
  ])('is ignored with %s', async (_what, text) => {
    const plain = await convert(server('v1', { spec: { endpoint: 'a:80' } }), 'v2');
    expect(await written(text)).toEqual(plain);
  });

  test('may hold thousands of values', async () => {
    const names = Array.from({ length: 4_000 }, (_, index) => `f${index}`);
    const fields = (value: number) => ({ extra: Object.fromEntries(names.map((name) => [name, value])) });
    const kept = names.map((name) => ({ path: ['spec', 'extra', name], value: 2, derived: 1 }));
    expect((await written(JSON.stringify(kept), fields(1))).spec).toMatchObject(fields(2));
  });

  test("is dropped if it is for the object's own version, because the object has these values", async () => {
    const own = server(
      'v1',
      { spec: {} },
      { annotations: { 'conversion.gatehouse.dev/v1': entries({ path: ['spec', 'rack'], value: 'x' }) } },
    );
    expect((await convert(await convert(own, 'v2'), 'v1')).spec).not.toHaveProperty('rack');
  });
});

test('list elements are matched by the keys that the schema names', async () => {
  const ports = (fields: object) => ({
    type: 'object',
    properties: {
      spec: {
        type: 'object',
        properties: {
          ports: {
            type: 'array',
            'x-kubernetes-list-type': 'map',
            'x-kubernetes-list-map-keys': ['port', 'protocol'],
            items: {
              type: 'object',
              properties: { port: { type: 'integer' }, protocol: { type: 'string' }, ...fields },
            },
          },
        },
      },
    },
  });
  const definition = definitionOf([
    { name: 'v1', schema: ports({}) },
    { name: 'v2', schema: ports({ name: { type: 'string' } }) },
  ]);
  const conversion = compiled({ versions: [{ name: 'v1' }] }, definition);
  const object = server('v2', {
    spec: {
      ports: [
        { port: 53, protocol: 'TCP', name: 'dns' },
        { port: 53, protocol: 'UDP', name: 'dns-udp' },
      ],
    },
  });
  const v1 = await convert(object, 'v1', conversion);
  const reversed = withSpec(v1, () => ({
    ports: [{ port: 53, protocol: 'UDP' }, { port: 53, protocol: 'TCP' }, { port: 80 }],
  }));
  expect((await convert(reversed, 'v2', conversion)).spec).toEqual({
    ports: [
      { port: 53, protocol: 'UDP', name: 'dns-udp' },
      { port: 53, protocol: 'TCP', name: 'dns' },
      { port: 80 },
    ],
  });
  expect(v1.apiVersion).toBe(`${GROUP}/v1`);
});

/** Deep-freezes a value: every write throws. */
function freeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    Object.values(value).forEach(freeze);
    Object.freeze(value);
  }
  return value;
}

/** A replacer for JSON.stringify: sorts keys and formats bigints. */
function sortedKeys(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return `${value}n`;
  return isJsonObject(value) ? Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)) : value;
}

/** Every object survives every conversion path, for all steps. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { ConversionStep } from '../../api/conversion-policy.ts';
import {
  isEqual,
  isJsonArray,
  isJsonObject,
  ownValue,
  parseJson,
  stringifyJson,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { toJsonText } from '../../json/json-text.ts';
import { compileConversion, type CompiledConversion } from './compile.ts';
import { ConversionFailure, versionOf } from './converter.ts';
import {
  compiled,
  definitionOf,
  policyOf,
  server,
  threeVersions,
} from '../../../test/support/admission/conversion.ts';
import { pruneObject } from './structural-schema.ts';

const NEVER = new AbortController().signal;

/** Simulates the API server: drops unknown fields, sorts keys and serialises the object. */
function throughApi(object: JsonObject, { definition }: CompiledConversion): JsonObject {
  const version = versionOf(object);
  const schema = definition.versions.find(({ name }) => name === version)?.schema;
  const parsed = parseJson(toJsonText(sorted(pruneObject(object, schema))));
  if (!isJsonObject(parsed)) throw new Error('no object');
  return parsed;
}

/** Sorts keys as Go does. Stops below this depth, because values without a schema can be very deep. */
function sorted(value: JsonValue, levels = 8): JsonValue {
  if (levels === 0) return value;
  if (isJsonArray(value)) return value.map((item) => sorted(item, levels - 1));
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, item]) => [key, sorted(item, levels - 1)]));
}

/** Vitest's comparison fails for keys such as `constructor`, and for very deep values. */
function expectSame(actual: unknown, expected: unknown): void {
  if (isEqual(actual, expected)) return;
  expect(stringifyJson(actual)).toBe(stringifyJson(expected));
}

async function travel(
  conversion: CompiledConversion,
  object: JsonObject,
  versions: readonly string[],
): Promise<JsonObject> {
  let current = throughApi(object, conversion);
  for (const version of versions) {
    current = throughApi(await conversion.converter.convert(current, version, NEVER), conversion);
  }
  return current;
}

function nested(levels: number): JsonValue {
  let value: JsonValue = 9007199254740993n;
  for (let level = 0; level < levels; level += 1) value = level % 2 === 0 ? { a: value } : [value];
  return value;
}

const int64 = fc
  .oneof(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), fc.bigInt({ min: -9n, max: 9n }))
  .map((integer) => (Number.isSafeInteger(Number(integer)) ? Number(integer) : integer));
const names = fc.oneof(
  fc.string(),
  fc.constantFrom('__proto__', 'constructor', 'toString', '', 'a.b', '[*]', 'name'),
);
const texts = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom('5Gi', '500Mi', 'a:80', 'a:b:1', ':', 'x'),
);
const { anything } = fc.letrec<{ anything: JsonValue; list: JsonValue; object: JsonValue }>((tie) => ({
  anything: fc.oneof(
    { depthSize: 'medium' },
    texts,
    int64,
    fc.boolean(),
    fc.constant(null),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => (Object.is(n, -0) ? 0 : n)),
    tie('list'),
    tie('object'),
  ),
  list: fc.array(tie('anything'), { maxLength: 4 }),
  object: fc
    .array(fc.tuple(names, tie('anything')), { maxLength: 4 })
    .map((entries) => Object.fromEntries(entries)),
}));
const anyFields = fc
  .array(fc.tuple(names, anything), { maxLength: 4 })
  .map((entries) => Object.fromEntries(entries));

/** Values that fit a schema, sometimes with a null where the schema allows it. */
function valuesOf(schema: JsonObject): fc.Arbitrary<JsonValue> {
  const [properties, items] = [ownValue(schema, 'properties'), ownValue(schema, 'items')];
  switch (ownValue(schema, 'type')) {
    case 'string':
      return texts;
    case 'integer':
      return int64;
    case 'array':
      return fc.array(isJsonObject(items) ? valuesOf(items) : anything, { maxLength: 4 });
    default:
      return isJsonObject(properties)
        ? fc
            .record(
              Object.fromEntries(
                Object.entries(properties).map(([name, property]) => [
                  name,
                  isJsonObject(property) ? valuesOf(property) : anything,
                ]),
              ),
              { requiredKeys: [] },
            )
            .map((fields) => fields as JsonObject) // a record has no undefined values
        : anyFields;
  }
}

const marks = fc.dictionary(
  fc.constantFrom('a', 'example.com/rack', 'b.c/d'),
  fc.constantFrom('', 'x', 'y-1'),
  { minKeys: 1 },
);
const metadata = fc.record({ labels: marks, annotations: marks }, { requiredKeys: [] });

const objectsOf = (version: string, { definition }: CompiledConversion): fc.Arbitrary<JsonObject> => {
  const schema = definition.versions.find(({ name }) => name === version)?.schema;
  const fields =
    schema === undefined
      ? fc.record({ spec: anyFields, status: anyFields }, { requiredKeys: [] })
      : valuesOf(schema);
  return fc
    .tuple(fields, metadata)
    .map(([value, meta]) => server(version, isJsonObject(value) ? value : {}, meta));
};

const VERSIONS = ['v1', 'v2', 'v3'];
const pairs = VERSIONS.flatMap((from) =>
  VERSIONS.filter((to) => to !== from).map((to) => [from, to] as const),
);

describe.each([
  ['an API server that prunes', compiled()],
  ['an API server that keeps unknown fields', compiled({}, threeVersions({ preserveUnknownFields: true }))],
])('with %s', (_what, conversion) => {
  test('every object survives any path through the versions', async () => {
    const journeys = fc
      .tuple(fc.constantFrom(...VERSIONS), fc.array(fc.constantFrom(...VERSIONS), { maxLength: 6 }))
      .chain(([from, versions]) => fc.tuple(objectsOf(from, conversion), fc.constant([...versions, from])));
    await fc.assert(
      fc.asyncProperty(journeys, async ([object, versions]) => {
        expectSame(await travel(conversion, object, versions), throughApi(object, conversion));
      }),
      { numRuns: 60 },
    );
  });

  test.each(pairs)(
    'an object of %s that is 12,000 levels deep survives the round trip through %s',
    async (from, to) => {
      const extra = { deep: nested(12_000), ['__proto__']: nested(100) };
      const object = server(from, { spec: { endpoint: 'a:80', tuning: extra, extra } });
      expectSame(await travel(conversion, object, [to, from]), throughApi(object, conversion));
    },
  );

  test('the same review gets the same answer', async () => {
    await fc.assert(
      fc.asyncProperty(objectsOf('v1', conversion), async (object) => {
        const [one, other] = [
          await travel(conversion, object, ['v2']),
          await travel(conversion, object, ['v3', 'v2']),
        ];
        expectSame(ownValue(one, 'spec'), ownValue(other, 'spec'));
        expect(toJsonText(await travel(conversion, object, ['v2']))).toBe(toJsonText(one));
      }),
      { numRuns: 25 },
    );
  });
});

/** Nonsensical steps: paths that overlap or lead through values that are not objects. */
const paths = fc.constantFrom(
  'spec.a',
  'spec.b',
  'spec.a.x',
  'spec.b.x',
  'spec.l[*].x',
  'spec.l[*].y',
  'spec.l',
  'status',
  'metadata.labels["a"]',
);
const steps: fc.Arbitrary<readonly ConversionStep[]> = fc.array(
  fc.oneof(
    fc.record({ from: paths, to: paths }).map((move): ConversionStep => ({ move })),
    paths.map((path): ConversionStep => ({ remove: { path } })),
    fc
      .record({ path: paths, value: fc.constantFrom<JsonValue[]>('v', 'w') })
      .map((filled): ConversionStep => ({ default: filled })),
    fc
      .record({ path: paths, expression: fc.constantFrom('"s"', 'string(size(object.spec))', 'dyn(null)') })
      .map((set): ConversionStep => ({ set })),
  ),
  { maxLength: 5 },
);

test('arbitrary steps lose no data, or fail', async () => {
  const definition = definitionOf([{ name: 'v1' }, { name: 'v2' }]);
  const value = fc.oneof(
    fc.constantFrom<JsonValue[]>('v', 'w', null, 1, 2n ** 60n),
    fc.record({ x: texts, y: int64 }, { requiredKeys: [] }),
  );
  const list = fc.array(
    fc.oneof(value, fc.record({ name: fc.constantFrom('n', 'm', 'o'), x: texts }, { requiredKeys: [] })),
    { maxLength: 3 },
  );
  const spec = fc.record(
    { a: value, b: value, l: fc.oneof(list, value), other: value },
    { requiredKeys: [] },
  );
  const fields = fc.record({ spec, status: value }, { requiredKeys: [] });
  let travelled = 0;
  await fc.assert(
    fc.asyncProperty(
      steps,
      steps,
      fields,
      metadata,
      fc.constantFrom('v1', 'v2'),
      async (toHub, fromHub, given, meta, from) => {
        const { usable } = compileConversion(
          policyOf({ versions: [{ name: 'v1', toHub: [...toHub], fromHub: [...fromHub] }] }),
          definition,
        );
        if (usable === undefined) return;
        const object = server(from, given, meta);
        try {
          const back = await travel(usable, object, [from === 'v1' ? 'v2' : 'v1', from]);
          expectSame(back, throughApi(object, usable));
          travelled += 1;
        } catch (error) {
          if (!(error instanceof ConversionFailure)) throw error;
        }
      },
    ),
    { numRuns: 2_000 },
  );
  expect(travelled).toBeGreaterThan(200);
});

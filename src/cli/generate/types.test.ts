import { format } from 'prettier';
import { expect, test } from 'vitest';

import { objectsOf, parseDocuments } from '../review/input.ts';
import { typesOf } from './types.ts';

const crd = (
  kind: string,
  versions: readonly (readonly [name: string, schema: object])[],
  scope = 'Namespaced',
  group = 'people.example.com',
) => {
  const plural = `${kind.toLowerCase()}s`;
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope,
      names: { kind, plural },
      versions: versions.map(([name, properties], index) => ({
        name,
        served: true,
        storage: index === 0,
        schema: { openAPIV3Schema: { type: 'object', required: ['spec'], properties } },
      })),
    },
  };
};

const placed = (...definitions: readonly object[]) =>
  definitions.flatMap((definition, index) =>
    parseDocuments(JSON.stringify(definition), `${index}.json`).found.flatMap((one) => objectsOf(one).found),
  );

const specOf = (properties: object) => ({ spec: { type: 'object', properties } });
const text = { type: 'string' };

test.each<[string, object, string]>([
  ['string', { a: text }, 'a?: string;'],
  ['integer', { a: { type: 'integer', format: 'int64' } }, 'a?: number;'],
  ['default', { a: { ...text, default: 'x' } }, 'a: string;'],
  ['enum', { a: { ...text, enum: ["it's", 'b"', 'c'] } }, `a?: "it's" | 'b"' | 'c';`],
  ['nullable', { a: { ...text, nullable: true } }, 'a?: string | null;'],
  ['int or string', { a: { 'x-kubernetes-int-or-string': true } }, 'a?: number | string;'],
  ['anything', { a: { 'x-kubernetes-preserve-unknown-fields': true } }, 'a?: unknown;'],
  ['list', { a: { type: 'array', items: { ...text, nullable: true } } }, 'a?: (string | null)[];'],
  [
    'map',
    { a: { type: 'object', additionalProperties: { type: 'boolean' } } },
    'a?: {\n      [key: string]: boolean;\n    };',
  ],
  ['nothing', { a: { type: 'object' } }, 'a?: {\n      [key: string]: never;\n    };'],
  [
    'known and unknown fields',
    { a: { type: 'object', properties: { b: text }, 'x-kubernetes-preserve-unknown-fields': true } },
    'a?: {\n      b?: string;\n      [key: string]: unknown;\n    };',
  ],
  [
    'embedded object',
    {
      a: {
        type: 'object',
        'x-kubernetes-embedded-resource': true,
        'x-kubernetes-preserve-unknown-fields': true,
      },
    },
    'apiVersion: string;\n      kind: string;\n      metadata?: ObjectMeta;\n      [key: string]: unknown;',
  ],
  ['name', { 'a-b': text }, "'a-b'?: string;"],
  ['description', { a: { ...text, description: 'ends */ x\u2028b' } }, String.raw`ends *\/ x`],
  [
    'long enum',
    { a: { ...text, enum: ['x'.repeat(40), 'y'.repeat(40)] } },
    `a?:\n      | '${'x'.repeat(40)}'\n      | '${'y'.repeat(40)}';`,
  ],
])('%s', async (_what, properties, expected) => {
  const code = typesOf(placed(crd('User', [['v1', specOf(properties)]])));
  expect(code).toContain(expected);
  expect(await format(code, { parser: 'typescript', singleQuote: true })).toBe(code);
});

test('the newest version is the type of the kind', () => {
  const code = typesOf(
    placed(
      crd('User', [
        ['v1beta1', specOf({ mail: text })],
        ['v1', specOf({})],
      ]),
    ),
  );
  expect(code).toContain("export interface User {\n  apiVersion: 'people.example.com/v1';");
  expect(code).toContain("export interface UserV1beta1 {\n  apiVersion: 'people.example.com/v1beta1';");
  expect(code).toContain("    'users.people.example.com': User;");
  expect(code).toContain('metadata: ObjectMeta & { name: string; namespace: string };');
});

test('the order of the input changes nothing', () => {
  const all = [crd('User', [['v1', specOf({})]]), crd('Team', [['v1', specOf({})]], 'Cluster')];
  expect(typesOf(placed(...all.toReversed()))).toBe(typesOf(placed(...all)));
});

test('names of TypeScript must be unique', () => {
  const user = crd('User', [['v1', specOf({})]]);
  const other = crd('User', [['v1', specOf({})]], 'Cluster', 'shop.example.com');
  expect(() => typesOf(placed(user, other))).toThrow(
    'users.people.example.com and users.shop.example.com have the name User in TypeScript: generate a file for each',
  );
  expect(() => typesOf(placed(user, user))).toThrow(
    '1.json: users.people.example.com is also in 0.json: remove one',
  );
});

test('an invalid definition is named with its place', () => {
  const definition = crd('User', [['v1', specOf({ a: { type: 'text' } })]]);
  expect(() => typesOf(placed(definition))).toThrow(/^0\.json: .*properties\[a\]\.type/);
});

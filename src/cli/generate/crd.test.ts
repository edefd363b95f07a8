import Type, { type Static } from 'typebox';
import { expect, expectTypeOf, test } from 'vitest';

import { defineKind, type ObjectOfKind } from '../../controllers/define-kind.ts';
import type { JsonValue } from '../../json/json.ts';
import { definitionOf } from './crd.ts';
import { toStructural } from './structural.ts';
import { typesOf } from './types.ts';

const anything = { 'x-kubernetes-preserve-unknown-fields': true };
const text = { type: 'string' };

test.each<[string, JsonValue, JsonValue]>([
  ['anything', {}, anything],
  ['true', true, anything],
  ['$schema', { $schema: 'x', ...text }, text],
  ['const', { const: 'a' }, { type: 'string', enum: ['a'] }],
  ['enum without a type', { enum: ['a', 'b'] }, { type: 'string', enum: ['a', 'b'] }],
  [
    'literals',
    {
      anyOf: [
        { const: 'a', ...text },
        { const: 'b', ...text },
      ],
    },
    { type: 'string', enum: ['a', 'b'] },
  ],
  ['null in a union', { anyOf: [text, { type: 'null' }] }, { ...text, nullable: true }],
  ['null in a type', { type: ['string', 'null'] }, { ...text, nullable: true }],
  ['integer or string', { anyOf: [text, { type: 'integer' }] }, { 'x-kubernetes-int-or-string': true }],
  [
    'exclusive limit',
    { type: 'number', exclusiveMinimum: 0 },
    { type: 'number', minimum: 0, exclusiveMinimum: true },
  ],
  [
    'record of TypeBox',
    { type: 'object', patternProperties: { '^.*$': text } },
    { type: 'object', additionalProperties: text },
  ],
  [
    'record of Zod',
    { type: 'object', propertyNames: text, additionalProperties: text },
    { type: 'object', additionalProperties: text },
  ],
  [
    'closed object',
    { type: 'object', properties: { a: text }, additionalProperties: false },
    { type: 'object', properties: { a: text } },
  ],
])('%s', (_what, schema, expected) => {
  expect(toStructural(schema, 'spec')).toEqual(expected);
});

test.each<[JsonValue, string]>([
  [{ $ref: '#/$defs/A' }, 'spec.a[*]: a CustomResourceDefinition cannot contain $ref'],
  [{ allOf: [text] }, 'spec.a[*]: a CustomResourceDefinition cannot contain allOf'],
  [{ anyOf: [text, { type: 'boolean' }] }, 'spec.a[*]: a union can only be'],
  [{ type: ['string', 'boolean'] }, 'spec.a[*]: write one type'],
  [{ minLength: 1 }, 'spec.a[*]: type is missing'],
  [{ type: 'object', patternProperties: { '^a': text } }, 'spec.a[*]: patternProperties can only have'],
  [false, 'spec.a[*]: it is not a JSON Schema'],
])('%j is refused with its path', (items, message) => {
  const schema = { type: 'object', properties: { a: { type: 'array', items } } };
  expect(() => toStructural(schema, 'spec')).toThrow(message);
});

const Spec = Type.Object({
  mail: Type.String({ description: 'Where to write.' }),
  size: Type.Union([Type.Literal('small'), Type.Literal('large')]),
  note: Type.Optional(Type.Union([Type.String(), Type.Null()])),
});
const user = defineKind<Static<typeof Spec>>({
  group: 'people.example.com',
  version: 'v1',
  kind: 'User',
  scope: 'Cluster',
  spec: Spec,
});

test('from the schema to the definition, and back to the same type', () => {
  const object = definitionOf(user, 'user.ts');
  expect(object).toMatchObject({ metadata: { name: 'users.people.example.com' } });
  expect(typesOf([{ place: { file: 'user.yaml' }, object }])).toContain(`  spec: {
    /** Where to write. */
    mail: string;
    size: 'small' | 'large';
    note?: string | null;
  };`);
  expectTypeOf<ObjectOfKind<typeof user>['spec']>().toEqualTypeOf<{
    mail: string;
    size: 'small' | 'large';
    note?: string | null;
  }>();
});

test('what an API server rejects is refused', () => {
  const named = defineKind({ ...user, group: 'People', spec: Type.Object({}) });
  expect(() => definitionOf(named, 'user.ts')).toThrow(/^user\.ts: .*spec\.group/);
  expect(() => defineKind({ ...user, spec: undefined as never })).toThrow(
    'defineKind: spec is not a JSON Schema',
  );
});

import { expect, test } from 'vitest';

import { pruneSchemaProps } from './schema-props.ts';

test('unknown keywords are dropped at every depth', () => {
  expect(
    pruneSchemaProps({
      type: 'object',
      $id: 'x',
      properties: { a: { type: 'array', const: 1, items: { type: 'string', kind: 'x' } } },
      additionalProperties: { type: 'string', extra: true },
      allOf: [{ extra: true, required: ['a'] }],
    }),
  ).toEqual({
    type: 'object',
    properties: { a: { type: 'array', items: { type: 'string' } } },
    additionalProperties: { type: 'string' },
    allOf: [{ required: ['a'] }],
  });
});

test('property names are not mistaken for keywords', () => {
  const schema = { properties: { default: { type: 'string' }, extra: { type: 'string' } } };
  expect(pruneSchemaProps(schema)).toEqual(schema);
});

test('empty values without meaning are dropped; meaningful zero, false and empty values stay', () => {
  expect(
    pruneSchemaProps({
      description: '',
      nullable: false,
      required: [],
      properties: {},
      allOf: [],
      format: null,
      minimum: 0,
      default: '',
      additionalProperties: false,
      'x-kubernetes-preserve-unknown-fields': false,
    }),
  ).toEqual({
    minimum: 0,
    default: '',
    additionalProperties: false,
    'x-kubernetes-preserve-unknown-fields': false,
  });
});

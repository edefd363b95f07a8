import { expect, test } from 'vitest';

import { goForm } from './go-form.ts';

const strings = { type: 'object', additionalProperties: { type: 'string' } } as const;
const schema = {
  type: 'object',
  properties: {
    data: strings,
    rules: { type: 'array' },
    spec: {
      type: 'object',
      properties: {
        selector: { type: 'object', properties: { matchLabels: strings } },
        ports: { type: 'array', items: { type: 'object', properties: { tags: { type: 'array' } } } },
        name: { type: 'string' },
      },
    },
  },
} as const;

test('empty metadata fields are dropped for every kind', () => {
  const metadata = { name: 'a', labels: {}, finalizers: [], generateName: '', deletionGracePeriodSeconds: 0 };
  expect(goForm({ metadata, data: {} }, schema, true)).toEqual({
    metadata: { name: 'a', deletionGracePeriodSeconds: 0 },
    data: {},
  });
});

test('an empty list of managed fields stays, because it clears them', () => {
  const object = { metadata: { managedFields: [] } };
  expect(goForm(object, schema, false)).toBe(object);
});

test('empty maps and lists of a built-in kind are dropped at every depth', () => {
  const spec = { selector: { matchLabels: {} }, ports: [{ tags: [] }], name: '' };
  expect(goForm({ data: {}, spec }, schema, false)).toEqual({
    spec: { selector: {}, ports: [{}], name: '' },
  });
});

test('fields that are always written stay, and so do fields unknown to the schema', () => {
  const object = { rules: [], other: {}, data: { a: '' } };
  expect(goForm(object, schema, false)).toBe(object);
});

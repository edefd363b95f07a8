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

test('empty metadata is left out, for any kind', () => {
  const metadata = { name: 'a', labels: {}, finalizers: [], generateName: '', deletionGracePeriodSeconds: 0 };
  expect(goForm({ metadata, data: {} }, schema, true)).toEqual({
    metadata: { name: 'a', deletionGracePeriodSeconds: 0 },
    data: {},
  });
});

test('an empty list of managed fields stays, for it asks to have none', () => {
  const object = { metadata: { managedFields: [] } };
  expect(goForm(object, schema, false)).toBe(object);
});

test('empty maps and lists of a built-in kind are left out, at any depth', () => {
  const spec = { selector: { matchLabels: {} }, ports: [{ tags: [] }], name: '' };
  expect(goForm({ data: {}, spec }, schema, false)).toEqual({
    spec: { selector: {}, ports: [{}], name: '' },
  });
});

test('what is always written stays, and what the schema does not know', () => {
  const object = { rules: [], other: {}, data: { a: '' } };
  expect(goForm(object, schema, false)).toBe(object);
});

import { expect, test } from 'vitest';
import { OBJECT_META, wholeSchema } from './object-meta.ts';
import type { Schema } from './schema.ts';

test('the whole schema of a kind has its own and the common fields, and is memoised', () => {
  const schema: Schema = { type: 'object', required: ['spec'], properties: { spec: { type: 'object' } } };
  const whole = wholeSchema({ schema });
  expect(Object.keys(whole.properties ?? {})).toEqual(['apiVersion', 'kind', 'metadata', 'spec']);
  expect(whole.required).toEqual(['spec']);
  expect(wholeSchema({ schema })).toBe(whole);
});

test('name restrictions of a CRD are kept', () => {
  const schema: Schema = {
    type: 'object',
    properties: { metadata: { type: 'object', properties: { name: { type: 'string', maxLength: 5 } } } },
  };
  const metadata = wholeSchema({ schema }).properties?.metadata;
  expect(metadata?.properties?.name).toEqual({ type: 'string', maxLength: 5 });
  expect(metadata?.properties?.labels).toBe(OBJECT_META.properties?.labels);
});

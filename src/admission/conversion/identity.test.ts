/** The cases of TestRestoreObjectMeta (k8s.io/apiextensions-apiserver pkg/apiserver/conversion), for the webhook. */
import { describe, expect, test } from 'vitest';

import type { JsonObject, JsonValue } from '../../json/json.ts';
import { keepIdentity } from './answer-review.ts';

const V2 = 'infra.example.com/v2';

const object = (metadata: JsonValue | undefined, more: JsonObject = {}): JsonObject => ({
  apiVersion: 'infra.example.com/v1',
  kind: 'Server',
  ...(metadata === undefined ? {} : { metadata }),
  spec: {},
  ...more,
});

describe('TestRestoreObjectMeta', () => {
  const marked = { foo: 'bar', labels: { a: 'A', b: 'B' }, annotations: { a: '1', b: '2' } };
  const remarked = { labels: { a: 'AA', b: 'B' }, annotations: { a: '1', b: '22' } };
  const changed = { foo: 'abc', ...remarked };

  test.each<[string, JsonValue | undefined, JsonValue | undefined, JsonValue]>([
    ['no original metadata', undefined, {}, {}],
    ['changed label, annotations and non-label', marked, changed, { foo: 'bar', ...remarked }],
    ['added labels and annotations', { foo: 'bar' }, changed, { foo: 'bar', ...remarked }],
    ["nil'ed labels and annotations", marked, { labels: null, annotations: null }, { foo: 'bar' }],
  ])('%s', (_name, original, converted, expected) => {
    expect(keepIdentity(object(original), object(converted), V2).metadata).toEqual(expected);
  });

  test.each<[string, JsonValue | undefined, JsonValue | undefined, string]>([
    ['no converted metadata', {}, undefined, 'dropped metadata'],
    ['invalid converted metadata', {}, ['foo'], 'metadata is a list'],
    ['labels of nil', {}, { labels: { a: null, b: 'B' } }, 'metadata.labels["a"] must be a string'],
    ['invalid label key', {}, { labels: { 'some/non-qualified/label': 'x' } }, 'does not accept this key'],
    ['invalid label value', {}, { labels: { foo: 'üäö' } }, 'is not a valid label value'],
  ])('%s is refused', (_name, original, converted, message) => {
    expect(() => keepIdentity(object(original), object(converted), V2)).toThrow(message);
  });

  test('an unchanged value that was already invalid is accepted', () => {
    const metadata = { labels: { 'a/b/c': 'x' } };
    expect(keepIdentity(object(metadata), object({ labels: { 'a/b/c': 'x' } }), V2).metadata).toEqual(
      metadata,
    );
  });
});

describe('the identity of an object', () => {
  const metadata = { name: 'a', namespace: 'b', uid: 'c', resourceVersion: '7', finalizers: ['x/y'] };

  test('is restored, except labels and annotations, regardless of what the converter returned', () => {
    const changed = { ...metadata, finalizers: ['foo'], generation: 42, garbage: 'x', labels: { l: 'm' } };
    expect(keepIdentity(object(metadata), object(changed), V2)).toEqual({
      ...object({ ...metadata, labels: { l: 'm' } }),
      apiVersion: V2,
    });
  });

  test.each([
    ['name', { name: 'z' }],
    ['namespace', { namespace: '' }],
    ['uid', { uid: 'other' }],
  ])('cannot change: another %s is refused', (field, change) => {
    expect(() => keepIdentity(object(metadata), object({ ...metadata, ...change }), V2)).toThrow(
      `changed metadata.${field}`,
    );
  });

  test('cannot change: another kind is refused, and a missing kind is restored', () => {
    expect(() => keepIdentity(object({}), object({}, { kind: 'Other' }), V2)).toThrow(
      'changed kind from "Server" to "Other"',
    );
    const untyped = { apiVersion: 'infra.example.com/v1', metadata: {} };
    expect(keepIdentity(object({}), untyped, V2)).toMatchObject({ kind: 'Server', apiVersion: V2 });
  });
});

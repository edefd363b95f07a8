import { describe, expect, test } from 'vitest';
import { toJson, withMeta } from '../api-object.ts';
import { apiVersionOf } from '../resource-type.ts';
import { created, decoded, typeOf, TYPES } from '../../../test/support/sandbox/built-in-objects.ts';

const NAMESPACE = 'v1 Namespace';

describe('a Namespace', () => {
  test('is active, has its name label and its finalizer', () => {
    expect(toJson(created(NAMESPACE, { status: { phase: 'Terminating' } }, { name: 'a' }))).toMatchObject({
      metadata: { labels: { 'kubernetes.io/metadata.name': 'a' } },
      spec: { finalizers: ['kubernetes'] },
      status: { phase: 'Active' },
    });
  });

  test('keeps its name label and its finalizers on every update', () => {
    const old = created(NAMESPACE, {}, { name: 'a' });
    const bare = withMeta(decoded(NAMESPACE, { spec: { finalizers: [] } }, { name: 'a' }), {
      labels: { b: 'c' },
    });
    expect(typeOf(NAMESPACE).strategy.prepareForUpdate(bare, old)).toMatchObject({
      metadata: { labels: { b: 'c', 'kubernetes.io/metadata.name': 'a' } },
      spec: { finalizers: ['kubernetes'] },
    });
  });
});

test('lists without omitempty are null if they are absent, as in Go', () => {
  expect(decoded('rbac.authorization.k8s.io/v1 Role', {})).toMatchObject({ rules: null });
  expect(decoded('rbac.authorization.k8s.io/v1 ClusterRole', { rules: [] })).toMatchObject({ rules: [] });
  const slice = decoded('discovery.k8s.io/v1 EndpointSlice', { addressType: 'IPv4' });
  expect(slice).toMatchObject({ endpoints: null, ports: null });
});

test('completing an object is idempotent', () => {
  for (const type of TYPES) {
    const kind = `${apiVersionOf(type)} ${type.kind}`;
    const once = decoded(kind, {});
    expect(type.strategy.completeDefaults?.(once) ?? once, kind).toEqual(once);
  }
});

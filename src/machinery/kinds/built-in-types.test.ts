import { describe, expect, test } from 'vitest';
import { toJson, withMeta } from '../api-object.ts';
import { reviewKinds } from './rbac/access-reviews.ts';
import { apiVersionOf } from '../resource-type.ts';
import {
  cells,
  created,
  createProblems,
  decoded,
  typeOf,
  TYPES,
  updated,
  updateProblems,
} from '../../../test/support/sandbox/built-in-objects.ts';

const NAMESPACE = 'v1 Namespace';
const API_SERVICE = 'apiregistration.k8s.io/v1 APIService';

test('resource names and kinds are unique', () => {
  const names = TYPES.map((type) => `${apiVersionOf(type)} ${type.kind}`);
  expect(new Set(names).size).toBe(names.length);
});

test('a review without an answer is not served', () => {
  expect(reviewKinds({ TokenReview: (review) => review }).map(({ resource }) => resource)).toEqual([
    'tokenreviews',
  ]);
});

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

  test('must have qualified finalizers', () => {
    expect(createProblems(NAMESPACE, { spec: { finalizers: ['foo', 'a/b'] } }, { name: 'a' })).toEqual([
      'spec.finalizers: Invalid value: "foo": name is neither a standard finalizer name nor is it fully qualified',
    ]);
  });

  test.each([
    ['a.b', 'must not contain dots'],
    ['a_b', 'a lowercase RFC 1123 label must consist of'],
    ['a'.repeat(64), 'must be no more than 63 characters'],
  ])('may not be named %s', (name, problem) => {
    expect(typeOf(NAMESPACE).strategy.nameProblem?.(name)).toContain(problem);
  });
});

test('the duration of a Lease must be positive', () => {
  expect(
    createProblems('coordination.k8s.io/v1 Lease', {
      spec: { leaseDurationSeconds: 0, leaseTransitions: -1 },
    }),
  ).toEqual([
    'spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0',
    'spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0',
  ]);
});

describe('an APIService', () => {
  const metadata = { name: 'v1.foo.example.com' };
  const spec = { group: 'foo.example.com', version: 'v1', groupPriorityMinimum: 10, versionPriority: 10 };
  const service = { name: 'a', namespace: 'b' };

  test('is available if the API server itself serves the group', () => {
    const local = created(API_SERVICE, { spec }, metadata);
    expect(cells(API_SERVICE, local)).toEqual({ Service: 'Local', Available: 'True' });
    const remote = created(API_SERVICE, { spec: { ...spec, service } }, metadata);
    expect(cells(API_SERVICE, remote)).toEqual({ Service: 'b/a', Available: 'False (ServiceNotFound)' });
  });

  test.each([
    ['is healthy', {}, []],
    [
      'has another name',
      { version: 'v2' },
      [
        'metadata.name: Invalid value: "v1.foo.example.com": must be `spec.version+"."+spec.group`: "v2.foo.example.com"',
      ],
    ],
    [
      'has no priority',
      { groupPriorityMinimum: 0, versionPriority: 10_000 },
      [
        'spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000',
        'spec.versionPriority: Invalid value: 10000: must be positive and less than 1000',
      ],
    ],
    [
      'sets both caBundle and insecureSkipTLSVerify',
      { service, insecureSkipTLSVerify: true, caBundle: 'YWJj' },
      ['spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present'],
    ],
    [
      'has a caBundle but no service',
      { insecureSkipTLSVerify: true, caBundle: 'YWJj' },
      [
        'spec.caBundle: Invalid value: "3 bytes": local APIServices may not have a caBundle',
        'spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify',
      ],
    ],
    [
      'has an empty service',
      { service: {} },
      ['spec.service.namespace: Required value', 'spec.service.name: Required value'],
    ],
  ])('that %s', (_what, change, expected) => {
    expect(createProblems(API_SERVICE, { spec: { ...spec, ...change } }, metadata)).toEqual(expected);
  });
});

test('a NetworkPolicy covers ingress, and egress if it has egress rules', () => {
  const kind = 'networking.k8s.io/v1 NetworkPolicy';
  expect(created(kind, { spec: {} })).toMatchObject({ spec: { podSelector: {}, policyTypes: ['Ingress'] } });
  const both = created(kind, { spec: { egress: [{ ports: [{ port: 1 }] }] } });
  expect(both).toMatchObject({
    spec: { policyTypes: ['Ingress', 'Egress'], egress: [{ ports: [{ protocol: 'TCP' }] }] },
  });
});

test('the address type of an EndpointSlice is immutable', () => {
  const kind = 'discovery.k8s.io/v1 EndpointSlice';
  expect(createProblems(kind, {})).toEqual(['addressType: Required value']);
  expect(updateProblems(kind, { addressType: 'IPv4' }, { addressType: 'IPv6' })).toEqual([
    'addressType: Invalid value: "IPv6": field is immutable',
  ]);
});

test('Endpoints show three addresses and the number of the others', () => {
  const subsets = [{ addresses: ['1', '2', '3', '4'].map((ip) => ({ ip })), ports: [{ port: 80 }] }];
  expect(cells('v1 Endpoints', created('v1 Endpoints', { subsets }))).toEqual({
    Endpoints: '1:80,2:80,3:80 + 1 more...',
  });
});

test('completing an object is idempotent', () => {
  for (const type of TYPES) {
    const kind = `${apiVersionOf(type)} ${type.kind}`;
    const once = decoded(kind, {});
    expect(type.strategy.completeDefaults?.(once) ?? once, kind).toEqual(once);
  }
});

test('rewriting a Service with its original manifest changes nothing', () => {
  const fields = { spec: { ports: [{ port: 80 }] } };
  const old = created('v1 Service', fields);
  expect(updated('v1 Service', fields, old)).toEqual(withoutStatus(old));
});

function withoutStatus(object: object): object {
  return Object.fromEntries(Object.entries(object).filter(([key]) => key !== 'status'));
}

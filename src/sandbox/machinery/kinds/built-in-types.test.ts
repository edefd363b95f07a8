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
} from '../../../../test/support/sandbox/written.ts';

const NAMESPACE = 'v1 Namespace';
const API_SERVICE = 'apiregistration.k8s.io/v1 APIService';

test('no two kinds share a name', () => {
  const names = TYPES.map((type) => `${apiVersionOf(type)} ${type.kind}`);
  expect(new Set(names).size).toBe(names.length);
});

test('a review without an answer is not served', () => {
  expect(reviewKinds({ TokenReview: (review) => review }).map(({ resource }) => resource)).toEqual([
    'tokenreviews',
  ]);
});

describe('a Namespace', () => {
  test('is active, carries its name and is held by its finalizer', () => {
    expect(toJson(created(NAMESPACE, { status: { phase: 'Terminating' } }, { name: 'a' }))).toMatchObject({
      metadata: { labels: { 'kubernetes.io/metadata.name': 'a' } },
      spec: { finalizers: ['kubernetes'] },
      status: { phase: 'Active' },
    });
  });

  test('keeps the label of its name and its finalizers, whatever an update says', () => {
    const old = created(NAMESPACE, {}, { name: 'a' });
    const bare = withMeta(decoded(NAMESPACE, { spec: { finalizers: [] } }, { name: 'a' }), {
      labels: { b: 'c' },
    });
    expect(typeOf(NAMESPACE).strategy.prepareForUpdate(bare, old)).toMatchObject({
      metadata: { labels: { b: 'c', 'kubernetes.io/metadata.name': 'a' } },
      spec: { finalizers: ['kubernetes'] },
    });
  });

  test('has finalizers that have an owner', () => {
    expect(createProblems(NAMESPACE, { spec: { finalizers: ['foo', 'a/b'] } }, { name: 'a' })).toEqual([
      'spec.finalizers: Invalid value: "foo": name is neither a standard finalizer name nor is it fully qualified',
    ]);
  });

  test.each([
    ['a.b', 'a lowercase RFC 1123 label must consist of'],
    ['a'.repeat(64), 'must be no more than 63 characters'],
  ])('is not called %s', (name, problem) => {
    expect(typeOf(NAMESPACE).strategy.nameProblem?.(name)).toContain(problem);
  });
});

test('a Lease lasts longer than no time', () => {
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

  test('is available when the API server itself serves it', () => {
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
      'both checks and does not check a certificate',
      { service, insecureSkipTLSVerify: true, caBundle: 'YWJj' },
      ['spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present'],
    ],
    [
      'checks the certificate of nobody',
      { insecureSkipTLSVerify: true, caBundle: 'YWJj' },
      [
        'spec.caBundle: Invalid value: "3 bytes": local APIServices may not have a caBundle',
        'spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify',
      ],
    ],
    [
      'is of no service',
      { service: {} },
      ['spec.service.namespace: Required value', 'spec.service.name: Required value'],
    ],
  ])('that %s', (_what, change, expected) => {
    expect(createProblems(API_SERVICE, { spec: { ...spec, ...change } }, metadata)).toEqual(expected);
  });
});

test('a NetworkPolicy is about what comes in, and about what goes out when it says so', () => {
  const kind = 'networking.k8s.io/v1 NetworkPolicy';
  expect(created(kind, { spec: {} })).toMatchObject({ spec: { podSelector: {}, policyTypes: ['Ingress'] } });
  const both = created(kind, { spec: { egress: [{ ports: [{ port: 1 }] }] } });
  expect(both).toMatchObject({
    spec: { policyTypes: ['Ingress', 'Egress'], egress: [{ ports: [{ protocol: 'TCP' }] }] },
  });
});

test('an EndpointSlice keeps the type of its addresses', () => {
  const kind = 'discovery.k8s.io/v1 EndpointSlice';
  expect(createProblems(kind, {})).toEqual(['addressType: Required value']);
  expect(updateProblems(kind, { addressType: 'IPv4' }, { addressType: 'IPv6' })).toEqual([
    'addressType: Invalid value: "IPv6": field is immutable',
  ]);
});

test('Endpoints show three addresses and count the rest', () => {
  const subsets = [{ addresses: ['1', '2', '3', '4'].map((ip) => ({ ip })), ports: [{ port: 80 }] }];
  expect(cells('v1 Endpoints', created('v1 Endpoints', { subsets }))).toEqual({
    Endpoints: '1:80,2:80,3:80 + 1 more...',
  });
});

test('completing an object twice is completing it once', () => {
  for (const type of TYPES) {
    const kind = `${apiVersionOf(type)} ${type.kind}`;
    const once = decoded(kind, {});
    expect(type.strategy.completeDefaults?.(once) ?? once, kind).toEqual(once);
  }
});

test('a Service that is written as it was first written stays as it is', () => {
  const fields = { spec: { ports: [{ port: 80 }] } };
  const old = created('v1 Service', fields);
  expect(updated('v1 Service', fields, old)).toEqual(withoutStatus(old));
});

function withoutStatus(object: object): object {
  return Object.fromEntries(Object.entries(object).filter(([key]) => key !== 'status'));
}

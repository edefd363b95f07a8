import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../json/json.ts';
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
} from '../../../test/support/sandbox/built-in-objects.ts';

const NAMESPACE = 'v1 Namespace';
const API_SERVICE = 'apiregistration.k8s.io/v1 APIService';
const TRUST_BUNDLE = 'certificates.k8s.io/v1 ClusterTrustBundle';
const INGRESS = 'networking.k8s.io/v1 Ingress';

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
});

test.each([
  [NAMESPACE, 'a.b', 'must not contain dots'],
  [NAMESPACE, 'a_b', 'a lowercase RFC 1123 label must consist of'],
  [NAMESPACE, 'a'.repeat(64), 'must be no more than 63 characters'],
  ['v1 Service', '1abc', 'a DNS-1035 label must consist of'],
  ['rbac.authorization.k8s.io/v1 Role', 'a/b', "may not contain '/'"],
  ['rbac.authorization.k8s.io/v1 Role', '..', "may not be '..'"],
])('a %s may not be named %s', (kind, name, problem) => {
  expect(typeOf(kind).strategy.nameProblem?.(name)).toContain(problem);
});

test('an APIService is available if the API server itself serves the group', () => {
  const shown = (spec: JsonObject) => cells(API_SERVICE, created(API_SERVICE, { spec }));
  expect(shown({})).toEqual({ Service: 'Local', Available: 'True' });
  expect(shown({ service: { name: 'a', namespace: 'b' } })).toEqual({
    Service: 'b/a',
    Available: 'False (ServiceNotFound)',
  });
});

test('the name of a ClusterTrustBundle begins with its signer', () => {
  const problems = (name: string, spec: JsonObject) => createProblems(TRUST_BUNDLE, { spec }, { name });
  expect(problems('plain', {})).toEqual([]);
  expect(problems('a.b:c:one', { signerName: 'a.b/c' })).toEqual([]);
  expect(problems('other', { signerName: 'a.b/c' })).toEqual([
    'metadata.name: Invalid value: "other": ClusterTrustBundle for signerName a.b/c must be named with prefix a.b:c:',
  ]);
});

test('subjects and roleRef default to the RBAC API group', () => {
  const GROUP = 'rbac.authorization.k8s.io';
  const view = { kind: 'ClusterRole', name: 'view' };
  const binding = created(`${GROUP}/v1 RoleBinding`, {
    roleRef: view,
    subjects: [
      { kind: 'User', name: 'a' },
      { kind: 'Group', name: 'b' },
      { kind: 'ServiceAccount', name: 'c' },
    ],
  });
  expect(toJson(binding)).toMatchObject({
    roleRef: { apiGroup: GROUP, ...view },
    subjects: [
      { kind: 'User', name: 'a', apiGroup: GROUP },
      { kind: 'Group', name: 'b', apiGroup: GROUP },
      { kind: 'ServiceAccount', name: 'c' },
    ],
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

test('Endpoints show three addresses and the number of the others', () => {
  const subsets = [{ addresses: ['1', '2', '3', '4'].map((ip) => ({ ip })), ports: [{ port: 80 }] }];
  expect(cells('v1 Endpoints', created('v1 Endpoints', { subsets }))).toEqual({
    Endpoints: '1:80,2:80,3:80 + 1 more...',
  });
});

test('an Ingress shows its class, hosts, addresses and ports', () => {
  const shown = (spec: JsonObject, status: JsonObject = {}) =>
    Object.values(cells(INGRESS, { ...created(INGRESS, { spec }), status }));
  const addresses = [{ ip: '192.0.2.1' }, { hostname: 'lb.example.com' }];
  const spec = { ingressClassName: 'nginx', rules: [{ host: 'a.example.com' }], tls: [{ secretName: 'a' }] };
  expect(shown({ rules: [{}] })).toEqual(['<none>', '*', '', '80']);
  expect(shown(spec, { loadBalancer: { ingress: addresses } })).toEqual([
    'nginx',
    'a.example.com',
    '192.0.2.1,lb.example.com',
    '80, 443',
  ]);
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
  expect({ ...updated('v1 Service', fields, old), status: old.status }).toEqual(toJson(old));
});

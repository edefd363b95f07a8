import { expect, test } from 'vitest';

import { ApiFailure } from '../../machinery/failure.ts';
import { discoveryAnswer } from './discovery.ts';
import { sampleRegistry } from '../../../../test/support/sandbox/sample-types.ts';

const JSON_ONLY = 'application/json';
const AGGREGATED = [
  'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList',
  'application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList',
  'application/json',
].join();

const ask = (path: string, accept: string | undefined = JSON_ONLY) =>
  discoveryAnswer(path, accept, sampleRegistry);
const bodyOf = (path: string, accept?: string) => ask(path, accept)?.body;

test('the version is that of the emulated Kubernetes release', () => {
  expect(bodyOf('/version')).toMatchObject({ major: '1', minor: '37', gitVersion: 'v1.37.0+sandbox' });
});

test('/api lists the versions of the core group', () => {
  expect(bodyOf('/api')).toEqual({ kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: [] });
});

const infra = {
  name: 'infra.example.com',
  versions: [
    { groupVersion: 'infra.example.com/v1', version: 'v1' },
    { groupVersion: 'infra.example.com/v1beta1', version: 'v1beta1' },
  ],
  preferredVersion: { groupVersion: 'infra.example.com/v1', version: 'v1' },
};

test('/apis lists built-in groups before groups of CRDs, each with its preferred version first', () => {
  const apps = { groupVersion: 'apps/v1', version: 'v1' };
  const authorization = { groupVersion: 'authorization.k8s.io/v1', version: 'v1' };
  expect(bodyOf('/apis')).toEqual({
    kind: 'APIGroupList',
    apiVersion: 'v1',
    groups: [
      { name: 'apps', versions: [apps], preferredVersion: apps },
      { name: 'authorization.k8s.io', versions: [authorization], preferredVersion: authorization },
      infra,
    ],
  });
});

test('a group has its own document, with or without a trailing slash', () => {
  const group = { kind: 'APIGroup', apiVersion: 'v1', ...infra };
  expect(bodyOf('/apis/infra.example.com')).toEqual(group);
  expect(bodyOf('/apis/infra.example.com/')).toEqual(group);
});

const ALL_VERBS = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];
const PART_VERBS = ['get', 'patch', 'update'];

test('a version lists its resources by name, each followed by its subresources', () => {
  expect(bodyOf('/api/v1')).toEqual({
    kind: 'APIResourceList',
    groupVersion: 'v1',
    resources: [
      {
        name: 'namespaces',
        singularName: 'namespace',
        namespaced: false,
        kind: 'Namespace',
        verbs: ALL_VERBS,
      },
      {
        name: 'namespaces/finalize',
        singularName: '',
        namespaced: false,
        kind: 'Namespace',
        verbs: ['update'],
      },
      {
        name: 'namespaces/status',
        singularName: '',
        namespaced: false,
        kind: 'Namespace',
        verbs: PART_VERBS,
      },
      {
        name: 'serviceaccounts',
        singularName: 'serviceaccount',
        namespaced: true,
        kind: 'ServiceAccount',
        verbs: ALL_VERBS,
      },
      {
        name: 'serviceaccounts/token',
        singularName: '',
        namespaced: true,
        group: 'authentication.k8s.io',
        version: 'v1',
        kind: 'TokenRequest',
        verbs: ['create'],
      },
      {
        name: 'services',
        singularName: 'service',
        namespaced: true,
        kind: 'Service',
        verbs: ALL_VERBS,
        shortNames: ['svc'],
        categories: ['all'],
      },
      { name: 'services/status', singularName: '', namespaced: true, kind: 'Service', verbs: PART_VERBS },
    ],
  });
});

test('a scale subresource belongs to the group autoscaling', () => {
  expect(bodyOf('/apis/apps/v1')).toMatchObject({
    resources: [
      { name: 'deployments' },
      { name: 'deployments/scale', group: 'autoscaling', version: 'v1', kind: 'Scale', verbs: PART_VERBS },
      { name: 'deployments/status' },
    ],
  });
});

test('a client that asks for aggregated discovery gets all groups in one document', () => {
  const answer = ask('/apis', AGGREGATED);
  expect(answer?.contentType).toBe('application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList');
  expect(answer?.body).toMatchObject({
    kind: 'APIGroupDiscoveryList',
    apiVersion: 'apidiscovery.k8s.io/v2',
    items: [
      { metadata: { name: 'apps' } },
      { metadata: { name: 'authorization.k8s.io' } },
      { metadata: { name: 'infra.example.com' }, versions: [{ version: 'v1' }, { version: 'v1beta1' }] },
    ],
  });
});

test('aggregated discovery of the core group has no name, and lists subresources below their resources', () => {
  expect(bodyOf('/api', AGGREGATED)).toMatchObject({
    items: [
      {
        metadata: { creationTimestamp: null },
        versions: [
          {
            version: 'v1',
            freshness: 'Current',
            resources: [
              { resource: 'namespaces', scope: 'Cluster' },
              {
                resource: 'serviceaccounts',
                responseKind: { group: '', version: 'v1', kind: 'ServiceAccount' },
                scope: 'Namespaced',
                singularResource: 'serviceaccount',
                verbs: ALL_VERBS,
                subresources: [
                  {
                    subresource: 'token',
                    responseKind: { group: 'authentication.k8s.io', version: 'v1', kind: 'TokenRequest' },
                    verbs: ['create'],
                  },
                ],
              },
              { resource: 'services', shortNames: ['svc'], categories: ['all'] },
            ],
          },
        ],
      },
    ],
  });
});

test('an older client gets aggregated discovery in its own version', () => {
  const accept = 'application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json';
  expect(ask('/apis', accept)).toMatchObject({
    contentType: 'application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList',
    body: { apiVersion: 'apidiscovery.k8s.io/v2beta1' },
  });
});

test('the documents of a single group are never aggregated', () => {
  expect(ask('/apis/apps', AGGREGATED)).toMatchObject({
    contentType: 'application/json',
    body: { name: 'apps' },
  });
  expect(() =>
    ask('/apis/apps', 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'),
  ).toThrow(ApiFailure);
});

test('documents are sent as YAML if the client asks for it', () => {
  expect(ask('/api', 'application/yaml')).toMatchObject({
    encoding: 'yaml',
    contentType: 'application/yaml',
  });
});

test('the root lists every served path', () => {
  expect(bodyOf('/')).toMatchObject({
    paths: expect.arrayContaining([
      '/api',
      '/api/v1',
      '/apis',
      '/apis/infra.example.com',
      '/apis/infra.example.com/v1beta1',
      '/openapi/v3',
      '/version',
    ]) as string[],
  });
});

test.each([
  '/api/v2',
  '/api/v1/services',
  '/apis/nope',
  '/apis/infra.example.com/v9',
  '/apis/apps/v1/deployments',
  '/version/more',
  '/healthz',
])('%s is not a discovery document', (path) => {
  expect(ask(path)).toBeUndefined();
});

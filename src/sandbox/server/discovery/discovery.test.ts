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

test('the version is that of the Kubernetes that we claim to be', () => {
  expect(bodyOf('/version')).toMatchObject({ major: '1', minor: '36', gitVersion: 'v1.36.0+sandbox' });
});

test('/api names the versions of the core group', () => {
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

test('/apis names the groups, our own before those of CRDs, and the preferred version of each first', () => {
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

test('a group has a document of its own, with a slash at the end or without', () => {
  const group = { kind: 'APIGroup', apiVersion: 'v1', ...infra };
  expect(bodyOf('/apis/infra.example.com')).toEqual(group);
  expect(bodyOf('/apis/infra.example.com/')).toEqual(group);
});

const ALL_VERBS = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];
const PART_VERBS = ['get', 'patch', 'update'];

test('a version lists its resources by name, each with its subresources after it', () => {
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

test('a scale is of the group autoscaling', () => {
  expect(bodyOf('/apis/apps/v1')).toMatchObject({
    resources: [
      { name: 'deployments' },
      { name: 'deployments/scale', group: 'autoscaling', version: 'v1', kind: 'Scale', verbs: PART_VERBS },
      { name: 'deployments/status' },
    ],
  });
});

test('all groups come in one document to who asks for aggregated discovery', () => {
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

test('aggregated discovery of the core group has no name, and subresources below their resources', () => {
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

test('an older client gets aggregated discovery in the version that it knows', () => {
  const accept = 'application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json';
  expect(ask('/apis', accept)).toMatchObject({
    contentType: 'application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList',
    body: { apiVersion: 'apidiscovery.k8s.io/v2beta1' },
  });
});

test('the documents of one group are never aggregated', () => {
  expect(ask('/apis/apps', AGGREGATED)).toMatchObject({
    contentType: 'application/json',
    body: { name: 'apps' },
  });
  expect(() =>
    ask('/apis/apps', 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'),
  ).toThrow(ApiFailure);
});

test('documents come as YAML to who wants them so', () => {
  expect(ask('/api', 'application/yaml')).toMatchObject({
    encoding: 'yaml',
    contentType: 'application/yaml',
  });
});

test('the root lists every path that is served', () => {
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
])('%s is no document of discovery', (path) => {
  expect(ask(path)).toBeUndefined();
});

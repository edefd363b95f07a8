import { join } from 'node:path';
import { expect, test } from 'vitest';

import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import { readManifests } from '../../deploy-manifests.ts';
import { governedKinds, shippedAccess, readRestartAccess } from './access.ts';
import type { AccessQuestion } from '../../../kube/access.ts';
import type { KubeClient } from '../../../kube/client.ts';
import type { Resource } from '../../../kube/object.ts';
import { deployments, statefulSets } from '../../../kube/well-known.ts';
import { ApiError, createCluster } from '../../../../test/support/runtime/fixtures.ts';

const BASE = join(import.meta.dirname, '..', '..', '..', '..', 'deploy', 'base');

test('the access reviews follow the rules of the manifests: subresources, and Roles in their namespace', () => {
  const questions = shippedAccess(readManifests(BASE), 'elsewhere', [
    'gatehouse-webhook',
    'gatehouse-controllers',
  ]);
  expect(questions).toContainEqual({ verb: 'create', group: '', resource: 'secrets' });
  expect(questions).toContainEqual({
    verb: 'update',
    group: 'gatehouse.dev',
    resource: 'restorewindows',
    subresource: 'status',
  });
  expect(questions).toContainEqual({
    verb: 'update',
    group: 'coordination.k8s.io',
    resource: 'leases',
    namespace: 'elsewhere',
  });
});

test('the webhook process needs fewer permissions than both processes', () => {
  const of = (...accounts: readonly string[]) => shippedAccess(readManifests(BASE), 'elsewhere', accounts);
  expect(of('gatehouse-webhook')).not.toContainEqual({ verb: 'create', group: '', resource: 'secrets' });
  expect(of('gatehouse-webhook')).toContainEqual({
    ...{ verb: 'list', group: '', resource: 'secrets', namespace: 'elsewhere', name: 'gatehouse-serving' },
  });
  const both = of('gatehouse-webhook', 'gatehouse-controllers');
  expect(both.length).toBeLessThan(of('gatehouse-webhook').length + of('gatehouse-controllers').length);
});

test('roles of other ServiceAccounts are ignored', () => {
  const rules = [{ apiGroups: [''], resources: ['pods'], resourceNames: ['a', 'b'], verbs: ['get'] }];
  const roleFor = (account: string) => [
    { kind: 'ClusterRole', metadata: { name: 'reader' }, rules },
    {
      kind: 'ClusterRoleBinding',
      roleRef: { kind: 'ClusterRole', name: 'reader' },
      subjects: [{ kind: 'ServiceAccount', name: account }],
    },
  ];
  expect(shippedAccess(roleFor('grafana'), 'x', ['gatehouse'])).toEqual([]);
  expect(shippedAccess(roleFor('gatehouse'), 'x', ['gatehouse']).map(({ name }) => name)).toEqual(['a', 'b']);
});

test('a kind of several policies is checked once, for the policy that needs it', () => {
  const match = { apiGroups: ['x.dev'], resources: ['servers', 'servers/status'] };
  const audits: AdmissionPolicy = { metadata: { name: 'audits' }, spec: { match } };
  const target = { apiGroup: 'x.dev', resource: 'racks' };
  const refers: AdmissionPolicy = {
    metadata: { name: 'refers' },
    spec: { match, validate: { references: [{ name: 'rack', path: 'spec.rack', target }] } },
  };
  expect(governedKinds([audits])).toEqual([
    { group: 'x.dev', resource: 'servers', policy: 'audits', needed: false },
  ]);
  expect(governedKinds([audits, refers])).toEqual([
    { group: 'x.dev', resource: 'servers', policy: 'refers', needed: true },
    { group: 'x.dev', resource: 'racks', policy: 'refers', needed: true },
  ]);
});

test.each(['LockoutScope', 'UnknownKind', 'UnknownTarget'])(
  'a policy that is not ready with the reason %s needs no permission',
  (reason) => {
    const conditions = [
      { type: 'Ready', status: 'False' as const, reason, message: '', lastTransitionTime: '' },
    ];
    const match = { apiGroups: ['*'], resources: ['*'] };
    const unique = [{ name: 'a', paths: ['spec.a'] }];
    expect(
      governedKinds([
        { metadata: { name: 'a' }, spec: { match, validate: { unique } }, status: { conditions } },
      ]),
    ).toEqual([]);
  },
);

const ACCOUNT = { namespace: 'gatehouse-system', serviceAccount: 'gatehouse' };

/** A cluster in which Gatehouse has these permissions: `verb resource namespace`. */
function clusterWith(permissions: readonly string[]) {
  const { objects, client } = createCluster();
  const asked: string[] = [];
  const create = (_resource: Resource, review: object) => {
    const { resourceAttributes } = (review as { spec: { resourceAttributes: AccessQuestion } }).spec;
    const { verb, resource, namespace = '' } = resourceAttributes;
    asked.push(`${verb} ${resource} ${namespace}`);
    return Promise.resolve({ status: { allowed: permissions.includes(asked.at(-1) ?? '') } });
  };
  const add = (resource: Resource, namespace: string, name: string, restart?: string) => {
    const annotations = restart === undefined ? {} : { 'gatehouse.dev/restart-on-renewal': restart };
    objects(resource).add({ metadata: { namespace, name, annotations } });
  };
  return { add, asked, client: { ...client, create: create as KubeClient['create'] } };
}

test('a namespace with a workload that Gatehouse may not patch is named, once', async () => {
  const may = ['get pods', 'get replicasets', 'get deployments'].map((what) => `${what} shop`);
  const { add, client } = clusterWith(may);
  add(deployments, 'shop', 'api', 'true');
  add(deployments, 'shop', 'web', 'true');
  expect(await readRestartAccess(client, ACCOUNT)).toEqual({
    kind: 'read',
    value: {
      checked: 2,
      missing: [{ namespace: 'shop', workloads: ['Deployment shop/api', 'Deployment shop/web'] }],
    },
  });
});

test('each namespace needs only the permissions for its kinds', async () => {
  const may = ['get pods', 'get statefulsets', 'patch statefulsets'].map((what) => `${what} shop`);
  const { add, client } = clusterWith(may);
  add(statefulSets, 'shop', 'db', 'true');
  expect(await readRestartAccess(client, ACCOUNT)).toMatchObject({ value: { checked: 1, missing: [] } });
});

test('other workloads cost no access review', async () => {
  const { add, client, asked } = clusterWith([]);
  add(deployments, 'shop', 'api');
  add(deployments, 'shop', 'web', 'false');
  expect(await readRestartAccess(client, ACCOUNT)).toMatchObject({ value: { checked: 0, missing: [] } });
  expect(asked).toEqual([]);
});

test('a user who may not list workloads learns which permission is missing', async () => {
  const { client } = clusterWith([]);
  const listAll = () => Promise.reject(new ApiError(403, 'no'));
  expect(await readRestartAccess({ ...client, listAll }, ACCOUNT)).toMatchObject({
    kind: 'unread',
    permission: { verb: 'list', resource: 'deployments.apps' },
  });
});

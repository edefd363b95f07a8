import { expect, test } from 'vitest';

import type { AccessQuestion } from '../../../kube/access.ts';
import type { KubeClient } from '../../../kube/client.ts';
import type { Resource } from '../../../kube/object.ts';
import { deployments, statefulSets } from '../../../kube/well-known.ts';
import { ApiError, createCluster } from '../../../../test/support/runtime/fixtures.ts';
import { readRestartAccess } from './restart-access.ts';

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

import { join } from 'node:path';
import { expect, test } from 'vitest';

import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import { readManifests } from '../../deploy-manifests.ts';
import { governedKinds, shippedAccess, readRestartAccess } from './access.ts';
import type { AccessQuestion } from '../../../kube/access.ts';
import type { KubeClient } from '../../../kube/client.ts';
import type { Resource } from '../../../kube/object.ts';
import { deployments } from '../../../kube/well-known.ts';
import { createCluster } from '../../../../test/support/runtime/fixtures.ts';

const BASE = join(import.meta.dirname, '..', '..', '..', '..', 'deploy', 'base');

test('the access reviews follow the rules of the manifests: subresources, and Roles in their namespace', () => {
  const accounts = ['gatehouse-webhook', 'gatehouse-controllers'];
  const questions = shippedAccess(readManifests(BASE), 'elsewhere', accounts);
  expect(questions).toContainEqual({ verb: 'create', group: '', resource: 'secrets' });
  const windows = { group: 'gatehouse.dev', resource: 'restorewindows', subresource: 'status' };
  expect(questions).toContainEqual({ verb: 'update', ...windows });
  const leases = { group: 'coordination.k8s.io', resource: 'leases', namespace: 'elsewhere' };
  expect(questions).toContainEqual({ verb: 'update', ...leases });
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
  'a policy with the reason %s does not need permissions',
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

  const create = (_resource: Resource, review: object) => {
    const { resourceAttributes } = (review as { spec: { resourceAttributes: AccessQuestion } }).spec;
    const { verb, resource, namespace = '' } = resourceAttributes;
    const allowed = permissions.includes(`${verb} ${resource} ${namespace}`);
    return Promise.resolve({ status: { allowed } });
  };
  const add = (resource: Resource, namespace: string, name: string, restart?: string) => {
    const annotations = restart === undefined ? {} : { 'gatehouse.dev/restart-on-renewal': restart };
    objects(resource).add({ metadata: { namespace, name, annotations } });
  };
  return { add, client: { ...client, create: create as KubeClient['create'] } };
}

test('a namespace with workloads that Gatehouse lacks permission to patch is reported once', async () => {
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

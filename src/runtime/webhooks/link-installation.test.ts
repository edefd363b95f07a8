import { beforeEach, expect, test } from 'vitest';

import {
  ApiError,
  createCluster,
  NEVER,
  OWN_NAMESPACE,
  silent,
  type Cluster,
} from '../../../test/support/runtime/fixtures.ts';
import { INSTALLATION_ROLE } from '../../admission/webhooks/installation-owner.ts';
import { clusterRoles, namespaces } from '../../kube/well-known.ts';
import { createLinkInstallationReconciler, type LinkInstallationOptions } from './installation.ts';

let cluster: Cluster;
let warnings: string[];

const reconciler = (change: Partial<LinkInstallationOptions['client']> = {}) =>
  createLinkInstallationReconciler({
    client: { ...cluster.client, ...change },
    namespace: OWN_NAMESPACE,
    now: () => new Date(0),
    log: { ...silent, warn: (fields: object) => void warnings.push(JSON.stringify(fields)) },
  });
const roles = () => cluster.objects(clusterRoles);
const owners = () => roles().read(INSTALLATION_ROLE)?.metadata?.ownerReferences;

beforeEach(() => {
  cluster = createCluster();
  warnings = [];
  cluster.objects(namespaces).add({ metadata: { name: OWN_NAMESPACE, uid: 'n' } });
  roles().add({ metadata: { name: INSTALLATION_ROLE, uid: 'r' } });
});

test('the namespace becomes the owner of the role, in one write', async () => {
  const reconcile = reconciler();
  for (let pass = 1; pass <= 2; pass++)
    expect(await reconcile('', NEVER)).toEqual({ kind: 'requeue', at: new Date(60_000) });
  expect(owners()).toEqual([{ apiVersion: 'v1', kind: 'Namespace', name: OWN_NAMESPACE, uid: 'n' }]);
  expect(roles().writes()).toBe(1);
});

test('without the role nothing is written', async () => {
  roles().remove(INSTALLATION_ROLE);
  await reconciler()('', NEVER);
  expect(roles().writes()).toBe(0);
});

test('a role that changes at the same moment is read again', async () => {
  const patchMerge: LinkInstallationOptions['client']['patchMerge'] = (kind, ref, patch) => {
    roles().patch(INSTALLATION_ROLE, { metadata: { uid: 's' } });
    return cluster.client.patchMerge(kind, ref, patch);
  };
  await expect(reconciler({ patchMerge })('', NEVER)).rejects.toMatchObject({ code: 409 });
  expect(owners()).toBeUndefined();
});

test('a missing permission is said once, and tried again', async () => {
  const patchMerge = () => Promise.reject(new ApiError(403, 'clusterroles is forbidden'));
  const reconcile = reconciler({ patchMerge });
  for (let pass = 1; pass <= 2; pass++) expect(await reconcile('', NEVER)).toMatchObject({ kind: 'requeue' });
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toContain('permit get, patch and delete of ClusterRole gatehouse-installation');
});

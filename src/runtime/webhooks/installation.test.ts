import { beforeEach, describe, expect, test } from 'vitest';

import {
  ApiError,
  createCluster,
  NEVER,
  OWN_NAMESPACE,
  silent,
  type Cluster,
} from '../../../test/support/runtime/fixtures.ts';
import { INSTALLATION_ROLE, installationOwner } from '../../admission/webhooks/installation-owner.ts';
import { clusterRoles, namespaces, services } from '../../kube/well-known.ts';
import { createInstallation, type Installation, type InstallationOptions } from './installation.ts';

let cluster: Cluster;
let time: number;
let warnings: string[];
let installation: Installation;

const start = (client: InstallationOptions['client'] = cluster.client) =>
  createInstallation({
    ...{ client, namespace: OWN_NAMESPACE, service: 'gatehouse', monotonic: () => time },
    log: { ...silent, warn: (fields: object) => void warnings.push(JSON.stringify(fields)) },
  });
const addRole = (uid: string, metadata: object = {}) => {
  cluster.objects(clusterRoles).remove(INSTALLATION_ROLE);
  cluster.objects(clusterRoles).add({ metadata: { name: INSTALLATION_ROLE, uid, ...metadata } });
};
const removeRole = () => cluster.objects(clusterRoles).remove(INSTALLATION_ROLE);
const DELETED = { deletionTimestamp: '2026-11-21T12:00:00Z' };

beforeEach(() => {
  cluster = createCluster();
  time = 1_000_000;
  warnings = [];
  cluster.objects(namespaces).add({ metadata: { name: OWN_NAMESPACE } });
  cluster.objects(services).add({ metadata: { namespace: OWN_NAMESPACE, name: 'gatehouse' } });
  installation = start();
});

describe('the owner', () => {
  test('is the role with its current uid', async () => {
    addRole('1');
    expect(await installation.owner(NEVER)).toEqual(installationOwner('1'));
    addRole('2');
    expect(await installation.owner(NEVER)).toEqual(installationOwner('2'));
    expect(warnings).toEqual([]);
  });

  test.each<[string, () => void, string]>([
    ['does not exist', removeRole, 'does not exist: apply the manifests'],
    ['is being deleted', () => addRole('1', DELETED), 'does not exist: apply the manifests'],
    [
      'cannot be read',
      () => {
        const get = () => Promise.reject(new ApiError(403, 'forbidden'));
        installation = start({ get });
      },
      'could not read ClusterRole gatehouse-installation',
    ],
  ])('is nobody if the role %s, which is said once', async (_what, spoil, problem) => {
    spoil();
    expect(await installation.owner(NEVER)).toBeUndefined();
    expect(await installation.owner(NEVER)).toBeUndefined();
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain(problem);
  });

  test('is said to be missing again after it was there', async () => {
    await installation.owner(NEVER);
    addRole('1');
    await installation.owner(NEVER);
    removeRole();
    await installation.owner(NEVER);
    expect(warnings).toHaveLength(2);
  });

  test('tells when the role goes and comes back, but not at the first read', async () => {
    let told = 0;
    installation.onChange(() => {
      told += 1;
    });
    addRole('1');
    await installation.owner(NEVER);
    await installation.owner(NEVER);
    expect([told, installation.isChanging()]).toEqual([0, false]);
    removeRole();
    await installation.owner(NEVER);
    expect([told, installation.isChanging()]).toEqual([1, true]);
    addRole('2');
    await installation.owner(NEVER);
    time += 10_000;
    expect([told, installation.isChanging()]).toEqual([2, false]);
  });
});

describe('nothing is created', () => {
  test.each<[string, () => void, string]>([
    [
      'without the Service',
      () => cluster.objects(services).remove(`${OWN_NAMESPACE}/gatehouse`),
      'Service gatehouse-system/gatehouse does not exist',
    ],
    [
      'while the namespace is being deleted',
      () => cluster.objects(namespaces).add({ metadata: { name: OWN_NAMESPACE, ...DELETED } }),
      'the namespace gatehouse-system is being deleted',
    ],
    [
      'without the namespace',
      () => cluster.objects(namespaces).remove(OWN_NAMESPACE),
      'the namespace gatehouse-system is being deleted',
    ],
  ])('%s', async (_what, spoil, problem) => {
    expect(await installation.obstacle(NEVER)).toBeUndefined();
    spoil();
    expect(await installation.obstacle(NEVER)).toContain(problem);
  });

  test('for ten seconds after the role was deleted: the removal of Gatehouse may go on', async () => {
    addRole('1');
    await installation.owner(NEVER);
    removeRole();
    await installation.owner(NEVER);
    expect(await installation.obstacle(NEVER)).toContain('has just been deleted');
    time += 10_000;
    expect(await installation.obstacle(NEVER)).toBeUndefined();
  });

  test('but everything is, at once, if the role is back, or never existed', async () => {
    await installation.owner(NEVER);
    expect(await installation.obstacle(NEVER)).toBeUndefined();
    for (const uid of ['1', '2']) {
      addRole(uid);
      await installation.owner(NEVER);
      expect(await installation.obstacle(NEVER)).toBeUndefined();
    }
  });

  test('if it cannot be found out', async () => {
    const get = () => Promise.reject(new ApiError(403, 'forbidden'));
    installation = start({ get });
    await expect(installation.obstacle(NEVER)).rejects.toThrow('forbidden');
  });
});

describe('a write with an owner', () => {
  const owner = installationOwner('1');
  const REFUSED = "cannot set an ownerRef on a resource you can't delete";

  test('happens without it if the API server refuses the owner, which is said once', async () => {
    const write = (by: typeof owner | undefined) =>
      by === undefined ? Promise.resolve('without') : Promise.reject(new ApiError(403, REFUSED));
    expect(await installation.withOwner(owner, write)).toBe('without');
    expect(await installation.withOwner(owner, write)).toBe('without');
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('permit delete');
  });

  test.each([new ApiError(403, 'forbidden'), new ApiError(422, REFUSED), new Error(REFUSED)])(
    'fails if something else is refused: %s',
    async (error) => {
      await expect(installation.withOwner(owner, () => Promise.reject(error))).rejects.toBe(error);
      expect(warnings).toEqual([]);
    },
  );
});

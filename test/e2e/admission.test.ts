// suite: shared-plane, sandbox: yes
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { readManifests } from '../../src/cli/deploy-manifests.ts';
import type { Resource } from '../../src/kube/object.ts';
import { namespaces } from '../../src/kube/well-known.ts';
import {
  ADMISSION_POLICIES,
  DATACENTERS,
  established,
  SERVERS,
  type Cluster,
  untilGone,
} from '../support/cluster.ts';
import { resourceOf } from '../support/definitions.ts';
import {
  enforceExamples,
  refusal,
  seeInForce,
  startGatehouse,
  untilRefused,
} from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { condition, type Conditioned, datacenter, isTrue, server, type Server } from '../support/objects.ts';
import { recordOf } from '../support/owner-scene.ts';

let cluster: Cluster;
let replica: Replica;

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({ arrangement: 'both' }));
  await enforceExamples(cluster);
});

afterAll(() => cluster.stop());

const policyIs = (name: string, accept: (policy: Conditioned) => boolean) =>
  cluster.see<Conditioned>(`policy ${name}`, ADMISSION_POLICIES, { name }, accept);

const ref = (name: string) => ({ namespace: 'shop', name });

test('a Server without a tier is stored with the default tier', async () => {
  await cluster.admin.create(SERVERS, server('shop', 'plain', 'fra1'));
  expect((await cluster.admin.get<Server>(SERVERS, ref('plain')))?.spec).toEqual({
    datacenter: 'fra1',
    tier: 'standard',
  });
  await cluster.admin.create(SERVERS, {
    ...server('shop', 'golden', 'fra1'),
    spec: { datacenter: 'fra1', tier: 'gold' },
  });
  expect((await cluster.admin.get<Server>(SERVERS, ref('golden')))?.spec.tier).toBe('gold');
});

test('a Server with an unknown datacenter is refused, and message and causes name the field', async () => {
  const error = await refusal(cluster.admin.create(SERVERS, server('shop', 'lost', 'atlantis')));
  expect(error.message).toContain('spec.datacenter: Datacenter "atlantis" not found');
  expect(error.causes).toMatchObject([{ field: 'spec.datacenter', reason: 'FieldValueNotFound' }]);
  expect(await cluster.admin.get(SERVERS, ref('lost'))).toBeUndefined();
});

test('a Datacenter and a Server that are created in immediate succession are never refused, 200 times', async () => {
  for (let n = 0; n < 200; n++) {
    await cluster.admin.create(DATACENTERS, datacenter(`dc-${n}`));
    await cluster.admin.create(SERVERS, server('shop', `in-dc-${n}`, `dc-${n}`));
  }
});

test('a change of the datacenter of a Server is refused', async () => {
  await cluster.admin.create(SERVERS, server('shop', 'settled', 'fra1'));
  const error = await refusal(
    cluster.admin.patchMerge(SERVERS, ref('settled'), { spec: { datacenter: 'dc-1' } }),
  );
  expect(error.message).toContain('spec.datacenter');
  expect(error.causes).toMatchObject([{ field: 'spec.datacenter', reason: 'FieldValueForbidden' }]);
  await cluster.admin.patchMerge(SERVERS, ref('settled'), { spec: { tier: 'gold' } });
});

test('a Server whose datacenter is gone can be edited, can lose its finalizer and is then deleted', async () => {
  await cluster.admin.create(DATACENTERS, datacenter('doomed'));
  await cluster.admin.create(
    SERVERS,
    server('shop', 'orphan', 'doomed', { finalizers: ['example.com/hold'] }),
  );
  await cluster.admin.delete(DATACENTERS, { name: 'doomed' });
  await untilGone(cluster, DATACENTERS, { name: 'doomed' });

  await cluster.admin.patchMerge(SERVERS, ref('orphan'), { metadata: { labels: { touched: 'true' } } });
  await cluster.admin.delete(SERVERS, ref('orphan'));
  await cluster.admin.patchMerge(SERVERS, ref('orphan'), { metadata: { finalizers: null } });
  expect(await cluster.admin.get(SERVERS, ref('orphan'))).toBeUndefined();
});

test('a forged deletionTimestamp of a new object skips no policy', async () => {
  const forged = { deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['example.com/hold'] };
  const options = { fieldManager: 'forger' };
  for (const metadata of [forged, { ...forged, deletionGracePeriodSeconds: 0 }]) {
    const lost = server('shop', 'forged', 'atlantis', metadata);
    for (const write of [
      () => cluster.admin.apply(SERVERS, lost, options),
      () => cluster.admin.create(SERVERS, lost),
    ])
      expect((await refusal(write())).causes).toMatchObject([{ field: 'spec.datacenter' }]);
  }
  await cluster.admin.apply(SERVERS, server('shop', 'forged', 'fra1', forged), options);
  await cluster.admin.create(SERVERS, server('shop', 'posted', 'fra1', forged));
  for (const name of ['forged', 'posted'])
    expect((await cluster.admin.get<Server>(SERVERS, ref(name)))?.spec.tier).toBe('standard');
});

test('a policy that does not compile reports where and why, and its previous version remains in force', async () => {
  const good = await cluster.admin.get<Conditioned & { spec: object }>(ADMISSION_POLICIES, {
    name: 'servers',
  });
  await cluster.admin.patchMerge(
    ADMISSION_POLICIES,
    { name: 'servers' },
    { spec: { validate: { immutable: ['spec..datacenter'] } } },
  );
  const broken = await policyIs('servers', (object) => condition(object, 'Ready')?.reason === 'InvalidPath');
  expect(condition(broken, 'Ready')?.message).toContain('spec.validate.immutable[0]');
  expect(
    (await refusal(cluster.admin.create(SERVERS, server('shop', 'lost', 'atlantis')))).message,
  ).toContain('atlantis');

  await replica.program.stop(15_000); // the previous version must survive a restart
  replica = await startReplica(cluster.plane, { name: 'again', arrangement: 'both', port: replica.port });
  await replica.whenReady(40_000);
  expect(
    (await refusal(cluster.admin.create(SERVERS, server('shop', 'lost', 'atlantis')))).message,
  ).toContain('atlantis');

  await cluster.admin.patchMerge(ADMISSION_POLICIES, { name: 'servers' }, { spec: good?.spec ?? {} });
  await policyIs('servers', isTrue('Ready'));
});

const USERS: Resource = resourceOf('people.example.com', 'users', 'User', false);

test('deploy/examples/users: a Namespace needs the User that it names, and records the User that owns it', async () => {
  await cluster.applyFolder('examples/users', ({ kind }) => kind === 'CustomResourceDefinition');
  await established(cluster, 'users.people.example.com');
  await cluster.applyFolder('examples/users', ({ kind }) => kind !== 'CustomResourceDefinition');
  await seeInForce(cluster, 'namespaces-of-users');
  const objects = readManifests(join(import.meta.dirname, '..', '..', 'deploy/examples/users/objects'));
  const object = (name: string) => objects.find(({ metadata }) => metadata?.name === name) ?? {};
  await untilRefused('a Namespace without an existing owner', 'people.example.com/owner', () =>
    cluster.admin.create(namespaces, object('eve-lab'), { dryRun: true }),
  );

  const ada = await cluster.admin.create(USERS, object('ada'));
  const lab = await cluster.admin.create(namespaces, object('ada-lab'));
  expect(lab.metadata?.labels).toMatchObject({ 'people.example.com/owner': 'ada' });
  const owner = { apiVersion: 'people.example.com/v1', kind: 'User', name: 'ada', uid: ada.metadata?.uid };
  const owned = await cluster.admin.patchMerge(
    namespaces,
    { name: 'ada-lab' },
    { metadata: { ownerReferences: [owner] } },
  );
  expect(JSON.parse(recordOf(owned) ?? '{}')).toMatchObject({ self: 'ada-lab', refs: [owner] });
});

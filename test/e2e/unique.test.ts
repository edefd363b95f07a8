// suite: shared-plane, sandbox: long
import { afterAll, beforeAll, expect, test } from 'vitest';

import { ApiError } from '../../src/kube/api-error.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { UNIQUE_CLAIMS } from '../../src/runtime/resources.ts';
import {
  ADMISSION_POLICIES,
  createNamespace,
  DATACENTERS,
  RESTORE_WINDOWS,
  SERVERS,
  type Cluster,
} from '../support/cluster.ts';
import {
  refusal,
  seeInForce,
  startReplicas,
  untilRefused,
  installExamples,
} from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { datacenter, server, serversPolicy, type Claim, restoreWindow, inShop } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { seeEvent } from '../support/injection-objects.ts';

/** Long enough for a write in flight, short enough for a test to wait. */
const SETTLE_MS = 6_000;

let cluster: Cluster;
let replicas: readonly Replica[] = [];

beforeAll(async () => {
  const settings = { 'unique-settle': `${SETTLE_MS}ms` };
  ({ cluster, replicas } = await startReplicas(['one', 'two'], { settings }));
  await installExamples(cluster);
  await cluster.admin.create(DATACENTERS, datacenter('fra1'));
  await createNamespace(cluster, 'shop');
  await createNamespace(cluster, 'lab');
  await create('older-than-the-policy', 'OLD');
  await cluster.apply(
    serversPolicy('serials', { validate: { unique: [{ name: 'serial', paths: ['spec.serial'] }] } }),
  );
  await seeInForce(cluster, 'serials');
  await untilRefused('a second OLD', 'spec.serial', () => create('probe', 'OLD', { dryRun: true }));
});

afterAll(() => cluster.stop());

const create = (
  name: string,
  serial: string,
  {
    dryRun = false,
    patient = true,
    namespace = 'shop',
    metadata = {},
  }: { dryRun?: boolean; patient?: boolean; namespace?: string; metadata?: object } = {},
) =>
  cluster.admin.create(
    SERVERS,
    { ...server(namespace, name, 'fra1', metadata), spec: { datacenter: 'fra1', serial } } as KubeObject,
    // An impatient client does not wait for the second in Retry-After.
    { dryRun, ...(patient ? {} : { timeoutMs: 900 }) },
  );

const patch = (name: string, serial: string | null) =>
  cluster.admin.patchMerge(SERVERS, inShop(name), { spec: { serial } });

const remove = (name: string) => cluster.admin.delete(SERVERS, inShop(name));

const claims = async () => (await cluster.admin.listAll<Claim>(UNIQUE_CLAIMS)).items;
const claimOf = async (serial: string) =>
  (await claims()).find(({ spec }) => spec.values[0] === JSON.stringify(serial));

test('exactly one of two concurrent creates with the same value is stored, whichever replicas answer', async () => {
  const pairs = Array.from({ length: 100 }, (_, n) => n);
  const outcomes = await Promise.all(
    pairs.flatMap((n) =>
      ['a', 'b'].map(async (side) => {
        try {
          await create(`pair-${n}-${side}`, `SN-${n}`);
          return 'stored';
        } catch (error) {
          if (!(error instanceof ApiError)) throw error;
          expect(error.message).toContain('spec.serial');
          return 'refused';
        }
      }),
    ),
  );
  const stored = (
    await cluster.admin.listAll<KubeObject & { spec: { serial?: string } }>(SERVERS)
  ).items.flatMap(({ spec }) => (spec.serial?.startsWith('SN-') === true ? [spec.serial] : []));
  expect(stored.toSorted()).toEqual(pairs.map((n) => `SN-${n}`).toSorted());
  expect(outcomes.filter((outcome) => outcome === 'stored')).toHaveLength(100);
  for (const replica of replicas) {
    const validated =
      /gatehouse_admission_duration_seconds_count\{webhook="validate",operation="CREATE"[^}]*\} (\d+)/g;
    expect([...(await replica.metrics()).matchAll(validated)].length).toBeGreaterThan(0);
  }
});

test('the refusal names the holder, the field and what to do', async () => {
  await create('first', 'NAMED');
  const error = await refusal(create('second', 'NAMED', { namespace: 'lab' }));
  expect(error.code).toBe(403);
  expect(error.message).toContain('"NAMED" is held by servers.infra.example.com "first" in namespace "shop"');
  expect(error.causes).toMatchObject([{ field: 'spec.serial', reason: 'FieldValueDuplicate' }]);
});

test('an object that is older than the policy keeps its value and gets a claim', async () => {
  const error = await refusal(create('late', 'OLD'));
  expect(error.message).toContain('"older-than-the-policy"');
  const claim = await eventually('its claim', () => claimOf('OLD'));
  expect(claim.spec.holder.name).toBe('older-than-the-policy');
  expect(claim.metadata?.labels).toMatchObject({ 'velero.io/exclude-from-backup': 'true' });
});

test('a value is free once its holder is deleted', async () => {
  await create('short-lived', 'FREED');
  await remove('short-lived');
  await create('heir', 'FREED'); // like kubectl, the client waits a second if the server asks for it
  await eventually(
    'the claim of the next holder',
    async () => (await claimOf('FREED'))?.spec.holder.name === 'heir',
  );
});

test('a value is free immediately after a change, even for others than its former holder', async () => {
  await create('mover', 'HERE');
  await patch('mover', 'THERE');
  await create('follower', 'HERE');
  expect((await refusal(patch('mover', 'HERE'))).message).toContain('"follower"');
  await patch('follower', null);
  await patch('mover', 'HERE');
});

test('a holder that waits for its finalizers keeps its value until it is gone', async () => {
  await create('held-up', 'HELD', { metadata: { finalizers: ['example.com/hold'] } });
  await remove('held-up');
  expect((await refusal(create('impatient', 'HELD'))).message).toContain('is being deleted');
  await cluster.admin.patchMerge(SERVERS, inShop('held-up'), { metadata: { finalizers: null } });
  await create('impatient', 'HELD');
});

test('a create that another policy refuses does not block its own retry, and blocks others only for a while', async () => {
  // Each policy has its own entry: the API server calls both at the same time.
  const rules = [
    {
      name: 'approved',
      expression: "has(object.metadata.labels) && 'approved' in object.metadata.labels",
      message: 'not approved',
    },
  ];
  await cluster.apply(serversPolicy('approval', { timeoutSeconds: 7, validate: { rules } }));
  await seeInForce(cluster, 'approval');
  await untilRefused('a Server that is not approved', 'not approved', () =>
    create('probe', 'PROBE', { dryRun: true }),
  );
  const approved = { metadata: { labels: { approved: 'yes' } } };

  await eventually('a claim of a refused create', async () => {
    expect((await refusal(create('refused', 'LOST'))).message).toContain('not approved');
    return await claimOf('LOST');
  });
  const blocked = await refusal(create('other', 'LOST', { ...approved, dryRun: true, patient: false }));
  expect(blocked.code).toBe(429);
  expect(blocked.message).toContain('"refused"');
  expect(blocked.retryAfterSeconds).toBe(1); // so that clients retry automatically
  await create('refused', 'LOST', approved);

  expect((await refusal(create('refused-again', 'LOST-2'))).message).toContain('not approved');
  await eventually('the value is free', () => create('other', 'LOST-2', approved), {
    timeoutMs: 4 * SETTLE_MS,
  });
  await cluster.admin.delete(ADMISSION_POLICIES, { name: 'approval' });
  await eventually('approval is not needed any more', () => create('free-again', 'FREE', { dryRun: true }));
});

test('a lost claim is recreated, and a claim without a holder is deleted', async () => {
  await create('robbed', 'ROBBED');
  const claim = await claimOf('ROBBED');
  await cluster.admin.delete(UNIQUE_CLAIMS, { name: claim?.metadata?.name ?? '' });
  expect((await refusal(create('thief', 'ROBBED'))).message).toContain('"robbed"');
  await remove('robbed');
  await create('robbed', 'ROBBED');
  await remove('robbed');
  await eventually('the claim is gone', async () => (await claimOf('ROBBED')) === undefined);
});

test('in a restore, a duplicate value is admitted and reported', async () => {
  const VELERO = { user: 'system:serviceaccount:velero:velero', groups: ['system:masters'] };
  await cluster.apply(restoreWindow('drill', { principals: [{ user: VELERO.user }] }));
  const restorer = cluster.impersonate(VELERO);
  await cluster.see('the window is open', RESTORE_WINDOWS, { name: 'drill' });
  await restorer.create(SERVERS, {
    ...server('shop', 'restored', 'fra1'),
    spec: { datacenter: 'fra1', serial: 'NAMED' },
  } as KubeObject);
  await eventually('the audit annotation', () =>
    cluster.plane
      .auditLog()
      .find(
        ({ objectRef, annotations }) =>
          objectRef?.name === 'restored' &&
          Object.entries(annotations ?? {}).some(
            ([key, value]) => key.endsWith('/deferred') && value.startsWith('serials/serial='),
          ),
      ),
  );
  expect((await claimOf('NAMED'))?.spec.holder.name).toBe('first');
  expect((await seeEvent(cluster, 'shop', 'restored', 'ValueNotUnique')).message).toContain(
    '"NAMED" is also held by servers.infra.example.com "first" in namespace "shop": change or delete one of them',
  );
});

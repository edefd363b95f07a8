// suite: shared-plane, sandbox: long
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { UniqueClaim } from '../../src/api/unique-claim.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { configMaps, customResourceDefinitions } from '../../src/kube/well-known.ts';
import { RESTORE_WINDOWS, UNIQUE_CLAIMS } from '../../src/runtime/resources.ts';
import {
  ADMISSION_POLICIES,
  createNamespace,
  DATACENTERS,
  SERVERS,
  type Cluster,
  untilGone,
} from '../support/cluster.ts';
import {
  refusal,
  seeInForce,
  startGatehouse,
  untilRefused,
  installExamples,
  warningsOf,
} from '../support/gatehouse-cluster.ts';
import {
  actionsRole,
  datacenter,
  referencesRole,
  server,
  serversPolicy,
  type Conditioned,
  restoreWindow,
  configMap,
  grant,
  inShop,
  condition,
} from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { seeEvent } from '../support/injection-objects.ts';

let cluster: Cluster;

beforeAll(async () => {
  ({ cluster } = await startGatehouse({ settings: { 'unique-settle': '3s' }, arrangement: 'both' }));
  await installExamples(cluster);
  await cluster.admin.delete(ADMISSION_POLICIES, { name: 'servers' }); // it makes spec.datacenter immutable
  await cluster.apply(
    referencesRole('configmaps', '', ['configmaps']),
    actionsRole('servers', 'infra.example.com', ['servers']),
    serversPolicy('keys', {
      validate: {
        references: [
          reference('datacenter', 'spec.datacenter', DATACENTER, 'Cascade'),
          reference('settings', 'metadata.labels.settings', CONFIG_MAP, 'SetNull'),
          {
            ...reference('zone', 'metadata.labels.zone', CONFIG_MAP, 'SetDefault'),
            defaultTarget: 'zone-default',
          },
          reference('parent', 'metadata.labels.parent', SERVER, 'Restrict'),
          reference('peer', 'metadata.labels.peer', SERVER, 'Cascade'),
        ],
      },
    }),
  );
  await seeInForce(cluster, 'keys');
  await createNamespace(cluster, 'shop');
  await untilRefused('a Server without its datacenter', 'policy keys', () =>
    cluster.admin.create(SERVERS, server('shop', 'probe', 'nowhere'), { dryRun: true }),
  );
  await cluster.admin.create(DATACENTERS, datacenter('base'));
  // The API server learns of each webhook entry separately.
  await cluster.admin.create(SERVERS, server('shop', 'probe', 'base'));
  await settings('probe');
  await eventually('deletions of all targets are recorded', async () => {
    await Promise.all([
      cluster.admin.delete(DATACENTERS, { name: 'base' }, { dryRun: true }),
      cluster.admin.delete(configMaps, inShop('probe'), { dryRun: true }),
    ]);
    return (await warningOfDeletion('base', true)).includes('Gatehouse will delete');
  });
});

afterAll(() => cluster.stop());

const DATACENTER = { apiGroup: 'infra.example.com', resource: 'datacenters' };
const SERVER = { apiGroup: 'infra.example.com', resource: 'servers' };
const CONFIG_MAP = { apiGroup: '', resource: 'configmaps' };

const reference = (name: string, path: string, target: object, onTargetDelete: string) => ({
  name,
  path,
  target,
  onTargetDelete,
});

const dc = (name: string) => cluster.admin.create(DATACENTERS, datacenter(name));
const put = (name: string, datacenterName: string, labels: object = {}) =>
  cluster.admin.create(SERVERS, server('shop', name, datacenterName, { labels }));
const settings = (name: string) => cluster.admin.create(configMaps, configMap(name));
const find = (name: string) => cluster.admin.get<KubeObject>(SERVERS, inShop(name));
const removeDc = (name: string) => cluster.admin.delete(DATACENTERS, { name });
const gone = (...all: readonly string[]) =>
  eventually(`${all.join(', ')} are gone`, async () =>
    (await Promise.all(all.map(find))).every((one) => one === undefined),
  );
const records = async () =>
  (await cluster.admin.listAll<UniqueClaim>(UNIQUE_CLAIMS, { labelSelector: 'gatehouse.dev/deletion' }))
    .items;

const warningOfDeletion = (name: string, dryRun = false) =>
  warningsOf(cluster, `/apis/infra.example.com/v1/datacenters/${name}${dryRun ? '?dryRun=All' : ''}`);

test('Cascade deletes the objects that name the target, and no others; the answer counts them', async () => {
  await dc('fra1');
  for (const name of ['a1', 'a2', 'a3']) await put(name, 'fra1');
  await eventually('the replica knows all referrers', async () =>
    (await warningOfDeletion('fra1', true)).includes('delete 3 servers.infra.example.com that refer to'),
  );
  expect(await records()).toEqual([]); // a dry run records nothing
  expect(await warningOfDeletion('fra1')).toContain('delete 3 servers.infra.example.com that refer to');
  await gone('a1', 'a2', 'a3');
  expect(await find('probe')).toBeDefined();
  await eventually('the record is gone', async () => (await records()).length === 0);
});

test('SetNull removes the name, and SetDefault writes another one', async () => {
  for (const name of ['s1', 'z1', 'zone-default']) await settings(name);
  await put('labelled', 'base', { settings: 's1', zone: 'z1', other: 'x' });
  await cluster.admin.delete(configMaps, inShop('s1'));
  await cluster.admin.delete(configMaps, inShop('z1'));
  await eventually('both labels are changed', async () => {
    const labels = (await find('labelled'))?.metadata?.labels;
    return labels?.settings === undefined && labels?.zone === 'zone-default' && labels.other === 'x';
  });
});

test('a cascade follows references of the deleted objects, even in a cycle', async () => {
  await dc('fra2');
  await put('c1', 'fra2');
  await put('c2', 'base', { peer: 'c1' });
  await put('c3', 'base', { peer: 'c2' });
  await cluster.admin.patchMerge(SERVERS, inShop('c1'), { metadata: { labels: { peer: 'c3' } } });
  await removeDc('fra2');
  await gone('c1', 'c2', 'c3');
});

/** Waits until the policy says that a deletion is not finished because of that. */
const seeUnfinished = (why: string) =>
  cluster.see<Conditioned>(`the policy names ${why}`, ADMISSION_POLICIES, { name: 'keys' }, (policy) =>
    (condition(policy, 'DeletionsFinished')?.message ?? '').includes(why),
  );

test('Restrict elsewhere stops a cascade until the last reference is gone', async () => {
  await dc('fra3');
  await put('p1', 'fra3');
  await put('child', 'base', { parent: 'p1' });
  await untilRefused('deleting p1', 'still referenced by', () =>
    cluster.admin.delete(SERVERS, inShop('p1'), { dryRun: true }),
  );
  await removeDc('fra3');
  const { message } = condition(await seeUnfinished('"child"'), 'DeletionsFinished') ?? {};
  expect(message).toContain('datacenters.infra.example.com "fra3" was deleted');
  await seeEvent(cluster, 'shop', 'p1', 'ReferrerKept');
  expect(await find('p1')).toBeDefined();
  await cluster.admin.delete(SERVERS, inShop('child'));
  await eventually('p1 is gone', async () => (await find('p1')) === undefined);
});

test('nothing is deleted while a RestoreWindow is open, and not at all if the restore brings the target back', async () => {
  const window = (name: string) => cluster.admin.create(RESTORE_WINDOWS, restoreWindow(name));
  const close = (name: string) =>
    cluster.admin.patchMerge(RESTORE_WINDOWS, { name }, { spec: { close: true } });
  await dc('fra4');
  await dc('fra5');
  await put('w4', 'fra4');
  await put('w5', 'fra5');
  // Times of creation have whole seconds, and what is created after the deletion comes from the restore.
  await sleep(1_000);
  await window('first');
  await removeDc('fra4');
  await removeDc('fra5');
  await seeUnfinished('RestoreWindow "first"');
  await dc('fra5'); // as a restore does
  expect(await find('w4')).toBeDefined();
  expect(await find('w5')).toBeDefined();
  await close('first');
  await eventually('w4 is gone', async () => (await find('w4')) === undefined, { timeoutMs: 90_000 });
  await eventually('no record is left', async () => (await records()).length === 0);
  expect(await find('w5')).toBeDefined();
});

test('the RestoreWindow of a tenant holds back the objects in its namespace, and no others', async () => {
  await createNamespace(cluster, 'spa');
  const windows = { apiGroups: ['gatehouse.dev'], resources: ['restorewindows'] };
  await cluster.apply(
    ...grant('tenant', ['carol'], [{ ...windows, verbs: ['create'] }]),
    ...grant('tenant', ['carol'], [{ ...windows, verbs: ['open'] }], 'spa'),
  );
  const carol = cluster.impersonate({ user: 'carol', groups: ['system:authenticated'] });
  await dc('fra6');
  await put('in-shop', 'fra6');
  const inSpa = { namespace: 'spa', name: 'in-spa' };
  await cluster.admin.create(SERVERS, server('spa', 'in-spa', 'fra6'));
  await sleep(1_000); // as above: otherwise in-spa could come from the restore
  const principals = [{ group: 'system:serviceaccounts:spa' }];
  await carol.create(
    RESTORE_WINDOWS,
    restoreWindow('tenant', { principals, match: { namespaces: { include: ['spa'] } } }),
  );
  await removeDc('fra6');
  await gone('in-shop');
  await seeUnfinished('RestoreWindow "tenant"');
  expect(await cluster.admin.get(SERVERS, inSpa)).toBeDefined();
  await cluster.admin.patchMerge(RESTORE_WINDOWS, { name: 'tenant' }, { spec: { close: true } });
  await untilGone(cluster, SERVERS, inSpa, 90_000);
});

test('a target that disappears without an admitted deletion deletes nothing', async () => {
  const forged = {
    metadata: { name: 'deleted.0000', labels: { 'gatehouse.dev/deletion': '' } },
    spec: {
      policy: 'keys',
      rule: 'references/datacenter',
      values: ['Cascade', '0'],
      holder: { group: 'infra.example.com', resource: 'datacenters', name: 'base' },
      claimedAt: new Date().toISOString(),
      requests: [{ uid: 'x', at: new Date().toISOString() }],
    },
  };
  await cluster.admin.create<KubeObject>(UNIQUE_CLAIMS, forged);
  await eventually('the forged record is gone', async () => (await records()).length === 0);
  expect(await find('probe')).toBeDefined();
});

test('a policy whose author lacks permission to delete the objects is refused', async () => {
  const author = cluster.impersonate({ user: 'policy-author', groups: ['system:authenticated'] });
  await cluster.apply(
    ...grant(
      'policy-author',
      ['policy-author'],
      [
        { apiGroups: ['gatehouse.dev'], resources: ['admissionpolicies'], verbs: ['create'] },
        { apiGroups: ['infra.example.com'], resources: ['*'], verbs: ['get', 'list', 'patch'] },
      ],
    ),
  );
  const policy = (action: string) =>
    serversPolicy('of-author', {
      validate: { references: [reference('d', 'metadata.labels.d', DATACENTER, action)] },
    });
  expect(
    (await refusal(author.create(ADMISSION_POLICIES, policy('Cascade'), { dryRun: true }))).message,
  ).toContain('you lack permission to delete servers.infra.example.com');
  await author.create(ADMISSION_POLICIES, policy('SetNull'), { dryRun: true });
});

test('targets that disappear with their CustomResourceDefinition delete nothing', async () => {
  const definition = { name: 'datacenters.infra.example.com' };
  const count = async () => (await cluster.admin.listAll(SERVERS)).items.length;
  const before = await count();
  expect(before).toBeGreaterThan(1);
  await cluster.admin.delete(customResourceDefinitions, definition);
  await untilGone(cluster, customResourceDefinitions, definition);
  await cluster.applyFolder('examples', ({ metadata }) => metadata?.name === definition.name);
  await eventually(
    'the kind is back, without objects',
    async () => (await cluster.admin.listAll(DATACENTERS)).items.length === 0,
  );
  expect(await records()).toEqual([]);
  await dc('after');
  await eventually('a later deletion is finished', async () => {
    await removeDc('after');
    return (await records()).length === 0;
  });
  expect(await count()).toBe(before);
});

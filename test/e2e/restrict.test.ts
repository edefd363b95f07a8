// suite: shared-plane, sandbox: long
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { KubeClient } from '../../src/kube/client.ts';
import type { Resource } from '../../src/kube/object.ts';
import { configMaps, namespaces } from '../../src/kube/well-known.ts';
import {
  ADMISSION_POLICIES,
  applyExamples,
  createNamespace,
  DATACENTERS,
  SERVERS,
  type Cluster,
  untilGone,
} from '../support/cluster.ts';
import { refusal, seeInForce, startGatehouse, untilRefused } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import {
  datacenter,
  referencesRole,
  server,
  serversPolicy,
  inShop,
  toDatacenter,
} from '../support/objects.ts';
import { eventually } from '../support/processes.ts';

let cluster: Cluster;
let replica: Replica;

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse());
  await applyExamples(cluster);
  await seeInForce(cluster, 'servers');
  await cluster.apply(
    referencesRole('configmaps', '', ['configmaps']),
    serversPolicy('stays', {
      validate: {
        references: [
          { ...toDatacenter, onTargetDelete: 'Restrict' },
          {
            name: 'settings',
            path: 'metadata.labels.settings',
            target: { apiGroup: '', resource: 'configmaps' },
            onTargetDelete: 'Restrict',
          },
        ],
      },
    }),
  );
  await seeInForce(cluster, 'stays');
  await createNamespace(cluster, 'shop');
  await cluster.admin.create(DATACENTERS, datacenter('probe'));
  await cluster.admin.create(SERVERS, server('shop', 'probe', 'probe'));
  await untilHeld(DATACENTERS, { name: 'probe' });
});

afterAll(() => cluster.stop());

/** Number of deletions of an object that Gatehouse has denied, without dry runs. */
function refusedDeletions(name: string): number {
  const lines = readFileSync(replica.program.logFile, 'utf8').split('\n');
  const isRefusal = (line: string) => {
    if (!line.includes('"admission"')) return false;
    const said = JSON.parse(line) as Readonly<Record<string, unknown>>; // pino writes objects
    return (
      said.name === name && said.operation === 'DELETE' && said.outcome === 'deny' && said.dryRun !== true
    );
  };
  return lines.filter(isRefusal).length;
}

const dc = (name: string) => cluster.admin.create(DATACENTERS, datacenter(name));
const removeDc = (name: string, options: Parameters<KubeClient['delete']>[2] = {}) =>
  cluster.admin.delete(DATACENTERS, { name }, options);
/** Waits until the replica knows the reference: its watch may be some milliseconds behind. */
const untilHeld = (
  resource: Resource,
  ref: { namespace?: string; name: string },
  by = 'still referenced by',
) => untilRefused(`deleting ${ref.name}`, by, () => cluster.admin.delete(resource, ref, { dryRun: true }));
const put = (name: string, datacenterName: string, metadata: object = {}, namespace = 'shop') =>
  cluster.admin.create(SERVERS, server(namespace, name, datacenterName, metadata));
const absent = (what: string, resource: Resource, ref: { namespace?: string; name: string }) =>
  untilGone(cluster, resource, ref);

test('a target that objects refer to cannot be deleted, and the refusal names five of these objects', async () => {
  await dc('fra1');
  for (const n of [1, 2, 3, 4, 5, 6, 7]) await put(`s${n}`, 'fra1');
  await untilHeld(DATACENTERS, { name: 'fra1' }, 'perhaps 2 more');
  const error = await refusal(removeDc('fra1'));
  expect(error.code).toBe(403);
  expect(error.message).toContain('datacenters.infra.example.com "fra1" is still referenced by');
  expect(
    error.message.match(/servers\.infra\.example\.com "s\d" in namespace "shop" \(spec\.datacenter\)/g),
  ).toHaveLength(5);
  expect(error.message).toContain('(policy stays)');
  expect(await cluster.admin.get(DATACENTERS, { name: 'fra1' })).toBeDefined();
});

test('a target can be deleted once no object refers to it', async () => {
  for (const n of [1, 2, 3, 4, 5, 6]) await cluster.admin.delete(SERVERS, inShop(`s${n}`));
  expect((await refusal(removeDc('fra1'))).message).toContain('"s7"');
  await dc('fra2');
  await cluster.admin.delete(ADMISSION_POLICIES, { name: 'servers' }); // the policy makes spec.datacenter immutable
  await eventually('a Server can move', () =>
    cluster.admin.patchMerge(SERVERS, inShop('s7'), { spec: { datacenter: 'fra2' } }),
  );
  await removeDc('fra1');
  await untilHeld(DATACENTERS, { name: 'fra2' }, '"s7"');
});

test('each object of a collection is checked separately', async () => {
  for (const name of ['c1', 'c2', 'c3']) {
    await cluster.admin.create(DATACENTERS, {
      ...datacenter(name),
      metadata: { name, labels: { collection: 'c' } },
    });
  }
  await put('in-c2', 'c2');
  const all = () =>
    cluster.adminRest.request({
      method: 'DELETE',
      path: '/apis/infra.example.com/v1/datacenters',
      query: { labelSelector: 'collection=c' },
    });
  await untilHeld(DATACENTERS, { name: 'c2' });
  expect((await refusal(all())).message).toContain('"c2" is still referenced by');
  expect(await cluster.admin.get(DATACENTERS, { name: 'c2' })).toBeDefined();
  await cluster.admin.delete(SERVERS, inShop('in-c2'));
  await eventually('all are deleted', async () => {
    await all();
    return (await cluster.admin.listAll(DATACENTERS, { labelSelector: 'collection=c' })).items.length === 0;
  });
});

test('a namespace can be deleted with its objects, even if objects refer to them', async () => {
  await createNamespace(cluster, 'whole');
  await dc('whole-dc');
  for (const n of [1, 2, 3]) {
    await cluster.admin.create(configMaps, { metadata: { namespace: 'whole', name: `settings-${n}` } });
    await put(`server-${n}`, 'whole-dc', { labels: { settings: `settings-${n}` } }, 'whole');
  }
  const setting = { namespace: 'whole', name: 'settings-1' };
  expect((await refusal(cluster.admin.delete(configMaps, setting))).message).toContain(
    'metadata.labels.settings',
  );
  await cluster.admin.delete(namespaces, { name: 'whole' });
  await absent('the namespace', namespaces, { name: 'whole' });
  await removeDc('whole-dc');
});

test('an object does not protect the target that owns it, unless it is to be orphaned', async () => {
  await dc('owner');
  const live = await cluster.admin.get(DATACENTERS, { name: 'owner' });
  const owned = {
    ownerReferences: [
      {
        apiVersion: 'infra.example.com/v1',
        kind: 'Datacenter',
        name: 'owner',
        uid: live?.metadata?.uid ?? '',
      },
    ],
  };
  await put('owned', 'owner', owned);
  await untilRefused('the deletion that orphans', '"owned"', () =>
    removeDc('owner', { dryRun: true, propagationPolicy: 'Orphan' }),
  );
  await removeDc('owner', { propagationPolicy: 'Foreground' });
  await absent('what it owned', SERVERS, inShop('owned'));
  await absent('the owner', DATACENTERS, { name: 'owner' });
});

test('the garbage collector waits until no object refers to the collected object', async () => {
  await cluster.admin.create(configMaps, { metadata: inShop('app') });
  const app = await cluster.admin.get(configMaps, inShop('app'));
  const ownerReferences = [
    { apiVersion: 'v1', kind: 'ConfigMap', name: 'app', uid: app?.metadata?.uid ?? '' },
  ];
  await cluster.admin.create(configMaps, { metadata: { namespace: 'shop', name: 'part', ownerReferences } });
  await put('user', 'probe', { labels: { settings: 'part' } });
  await untilHeld(configMaps, inShop('part'));
  await cluster.admin.delete(configMaps, inShop('app'));
  await eventually('a refused attempt of the garbage collector', () => refusedDeletions('part') > 0);
  expect(await cluster.admin.get(configMaps, inShop('part'))).toBeDefined();
  await cluster.admin.delete(SERVERS, inShop('user'));
  await absent('the part', configMaps, inShop('part'));
});

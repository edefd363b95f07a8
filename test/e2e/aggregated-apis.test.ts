// suite: shared-plane, sandbox: no (it does not aggregate APIs), slow
/** An API that another server serves behind kube-apiserver: its own policies fail closed while it is down, and others do not notice. */
import type { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { AdmissionPolicy } from '../../src/api/admission-policy.ts';
import { withCluster } from '../../src/cli/connect.ts';
import { readEverything } from '../../src/cli/restore/rehearse/cluster.ts';
import { localService } from '../../src/cli/sandbox/tour-objects.ts';
import { apiServices, configMaps } from '../../src/kube/well-known.ts';
import { ADMISSION_POLICIES, createNamespace, untilGone, type Cluster } from '../support/cluster.ts';
import { outcomeOf, seeInForce, startGatehouse } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { startJsonServer } from '../support/json-server.ts';
import {
  actionsRole,
  admissionPolicy,
  configMap,
  configMapsWith,
  referencesRole,
} from '../support/objects.ts';
import { eventually } from '../support/processes.ts';

const GROUP = 'inventory.example.com';
const LIMIT_RANGES = { ...configMaps, resource: 'limitranges', kind: 'LimitRange' };
const FOLLOWING = { namespace: 'shop', name: 'following' };
const SETTINGS = { 'compile-policies': 'true' };

let cluster: Cluster;
let replica: Replica;
let server: Awaited<ReturnType<typeof startJsonServer>>;
let isUp = true;

const never = () => new Promise<never>(() => undefined);
const rack = { metadata: { name: 'r1', uid: 'r1', resourceVersion: '5' }, spec: { serial: 'r1' } };
const RACKS = `/apis/${GROUP}/v1/racks`;

async function answer(_body: string, { url = '' }: IncomingMessage): Promise<object> {
  if (!isUp || url.includes('watch=true')) return await never();
  const [path] = url.split('?');
  const kind = { name: 'racks', kind: 'Rack', namespaced: false, verbs: ['get', 'list', 'watch', 'create'] };
  if (path === `/apis/${GROUP}/v1`) return { kind: 'APIResourceList', resources: [kind] };
  if (path === RACKS) return { kind: 'RackList', metadata: { resourceVersion: '5' }, items: [rack] };
  if (path === `${RACKS}/r1`) return { kind: 'Rack', ...rack };
  return { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'NotFound', code: 404 };
}

const policyOf = (suite: string, validate: object) =>
  admissionPolicy(suite, { match: configMapsWith({ suite }), validate });
const toConfigMap = { path: 'data.to', target: { apiGroup: '', resource: 'configmaps' } };
const POLICIES = [
  admissionPolicy('racks', {
    match: { apiGroups: [GROUP], apiVersions: ['v1'], resources: ['racks'] },
    validate: {
      rules: [{ name: 'named', expression: 'object.spec.serial != ""' }],
      unique: [{ name: 'serial', paths: ['spec.serial'] }],
    },
  }),
  policyOf('to-racks', {
    references: [{ name: 'rack', path: 'data.rack', target: { apiGroup: GROUP, resource: 'racks' } }],
  }),
  policyOf('restrict', { references: [{ name: 'to', ...toConfigMap, onTargetDelete: 'Restrict' }] }),
  admissionPolicy('cascade', {
    match: { apiGroups: [''], apiVersions: ['v1'], resources: ['limitranges'] },
    validate: {
      references: [
        { name: 'to', ...toConfigMap, path: 'metadata.annotations.to', onTargetDelete: 'Cascade' },
      ],
    },
  }),
  policyOf('ruled', { rules: [{ name: 'password', expression: '!("password" in object.data)' }] }),
];

const create = (suite: string, name: string, data: Readonly<Record<string, string>>) =>
  cluster.admin.create(configMaps, configMap(name, data, { labels: { suite } }));
const tryTo = (suite: string, data: Readonly<Record<string, string>>) =>
  outcomeOf(
    cluster.admin.create(configMaps, configMap('any', data, { labels: { suite } }), { dryRun: true }),
  );

beforeAll(async () => {
  server = await startJsonServer('localhost', answer);
  ({ cluster, replica } = await startGatehouse({
    settings: SETTINGS,
    prepare: async (prepared) => {
      await createNamespace(prepared, 'shop');
      await prepared.applyFolder('components/compile-policies');
      await prepared.apply(
        referencesRole('racks', GROUP, ['racks']),
        referencesRole('core', '', ['configmaps', 'limitranges']),
        actionsRole('core', '', ['limitranges']),
        localService('shop', 'racks', server.port),
      );
      const service = { namespace: 'shop', name: 'racks', port: server.port };
      const priorities = { groupPriorityMinimum: 1000, versionPriority: 10 };
      const spec = { group: GROUP, version: 'v1', ...priorities, insecureSkipTLSVerify: true, service };
      await prepared.admin.create(apiServices, { metadata: { name: `v1.${GROUP}` }, ...{ spec } });
    },
  }));
  await cluster.apply(...POLICIES);
  for (const { metadata } of POLICIES) await seeInForce(cluster, metadata.name);
  for (const name of ['kept', 'deleted']) await create('', name, {});
  await create('restrict', 'restricting', { to: 'kept' });
  const metadata = { ...FOLLOWING, annotations: { to: 'deleted' } };
  await cluster.admin.create(LIMIT_RANGES, { metadata, ...{ spec: { limits: [] } } });
});

afterAll(async () => {
  await cluster.admin.delete(apiServices, { name: `v1.${GROUP}` });
  await cluster.stop();
  await server.stop();
});

test('no check of its kinds is left to the API server, which does not check what it forwards', async () => {
  const enforcedBy = async (name: string) =>
    (await cluster.admin.get<AdmissionPolicy>(ADMISSION_POLICIES, { name }))?.status?.enforcedBy ?? [];
  await eventually('another policy is compiled', async () =>
    (await enforcedBy('ruled')).some(({ by }) => by === 'APIServer'),
  );
  expect(await enforcedBy('racks')).toEqual(
    ['rule named', 'unique serial'].map((check) => ({
      check,
      by: 'Webhook',
      reason: `an aggregated API server serves ${GROUP}, and whether it enforces compiled policies is unknown`,
    })),
  );
});

test('references to its objects are known, and a missing object is refused', async () => {
  expect(await tryTo('to-racks', { rack: 'r1' })).toBe('allowed');
  expect(await tryTo('to-racks', { rack: 'r2' })).toContain('data.rack: Rack "r2" not found');
});

const WAITS = { timeout: 120_000 };
test('while it does not answer, a replica starts and enforces everything else', WAITS, async () => {
  isUp = false;
  await replica.program.stop();
  replica = await startReplica(cluster.plane, { name: 'two', port: replica.port, settings: SETTINGS });
  await sleep(5_000); // a kubelet asks late, and seldom
  await replica.whenReady();
  expect(await tryTo('to-racks', { rack: 'r1' })).toContain('policy to-racks');
  expect(await tryTo('ruled', { password: 'x' })).toContain('rule password');
  expect(await tryTo('restrict', { to: 'missing' })).toContain('not found');
  const deletion = cluster.admin.delete(configMaps, { namespace: 'shop', name: 'kept' });
  expect(await outcomeOf(deletion)).toContain('is still referenced by configmaps "restricting"');
  await cluster.admin.delete(configMaps, { namespace: 'shop', name: 'deleted' });
  await untilGone(cluster, LIMIT_RANGES, FOLLOWING, 20_000);
  const kubeconfig = cluster.plane.kubeconfig('admin');
  const { objects, unread } = await withCluster({ kubeconfig }, 'test', readEverything);
  expect(objects.length).toBeGreaterThan(0);
  expect(unread).toMatchObject([{ reason: 'NotRead', object: expect.stringContaining(GROUP) as string }]);
});

test('once it answers again, references to its objects are allowed', async () => {
  isUp = true;
  await eventually('the reference', async () => (await tryTo('to-racks', { rack: 'r1' })) === 'allowed');
});

import { beforeEach, describe, expect, test } from 'vitest';
import {
  ApiError,
  createCluster,
  NEVER,
  OWN_NAMESPACE,
  silent,
} from '../../../test/support/runtime/fixtures.ts';
import { INSTALLATION_ROLE, installationOwner } from '../../admission/webhooks/installation-owner.ts';
import type { LiveWebhook, LiveWebhookConfiguration } from '../../admission/webhooks/dev-entries.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import {
  clusterRoles,
  endpointSlices,
  mutatingWebhookConfigurations,
  namespaces,
  services,
  validatingWebhookConfigurations,
} from '../../kube/well-known.ts';
import {
  createFirstInstallation,
  createInstallation,
  createLinkInstallationReconciler,
  servingObstacle,
  type Installation,
  type InstallationOptions,
} from './installation.ts';

const PLACE = { namespace: OWN_NAMESPACE, service: 'gatehouse' };
const TARGET = { namespace: OWN_NAMESPACE, name: 'gatehouse', port: 443 };
const DELETED = { deletionTimestamp: '2026-11-21T12:00:00Z' };

const cluster = createCluster();
const roles = cluster.objects(clusterRoles);
let time: number;
let warnings: string[];
let installation: Installation;

const start = (client: InstallationOptions['client'] = cluster.client) =>
  createInstallation({
    client,
    ...PLACE,
    monotonic: () => time,
    log: { ...silent, warn: (fields: object) => void warnings.push(JSON.stringify(fields)) },
  });
const removeRole = () => roles.remove(INSTALLATION_ROLE);
const addRole = (uid: string, metadata: object = {}) => {
  removeRole();
  roles.add({ metadata: { name: INSTALLATION_ROLE, uid, ...metadata } });
};
const removeService = () => cluster.objects(services).remove(`${OWN_NAMESPACE}/gatehouse`);
const addService = (spec: object = {}) => {
  const metadata = { namespace: OWN_NAMESPACE, name: 'gatehouse' };
  cluster.objects<KubeObject & { spec: object }>(services).add({ metadata, spec });
};

beforeEach(() => {
  cluster.reset();
  time = 1_000_000;
  warnings = [];
  cluster.objects(namespaces).add({ metadata: { name: OWN_NAMESPACE, uid: 'n' } });
  addService();
  installation = start();
});

describe('the owner', () => {
  const refused = () => Promise.reject(new ApiError(403, 'forbidden'));

  test.each<[string, () => unknown, string]>([
    ['does not exist', removeRole, 'does not exist: apply the manifests'],
    ['is being deleted', () => addRole('1', DELETED), 'does not exist: apply the manifests'],
    [
      'cannot be read',
      () => (installation = start({ get: refused })),
      `could not read ClusterRole ${INSTALLATION_ROLE}`,
    ],
  ])('is not known if the role %s, which is logged once', async (_what, spoil, problem) => {
    spoil();
    expect(await installation.owner(NEVER)).toBeUndefined();
    expect(await installation.owner(NEVER)).toBeUndefined();
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain(problem);
  });

  test('is the role with its current uid; tells when the role goes and comes back, but not at the first read', async () => {
    let told = 0;
    installation.onChange(() => void (told += 1));
    addRole('1');
    expect(await installation.owner(NEVER)).toEqual(installationOwner('1'));
    await installation.owner(NEVER);
    expect([told, installation.isChanging()]).toEqual([0, false]);
    removeRole();
    await installation.owner(NEVER);
    expect([told, installation.isChanging()]).toEqual([1, true]);
    addRole('2');
    expect(await installation.owner(NEVER)).toEqual(installationOwner('2'));
    time += 10_000;
    expect([told, installation.isChanging()]).toEqual([2, false]);
  });
});

test('nothing is created for ten seconds after the role was deleted, unless it is back', async () => {
  addRole('1');
  await installation.owner(NEVER);
  removeRole();
  await installation.owner(NEVER);
  expect(await installation.obstacle(NEVER)).toContain('has just been deleted');
  addRole('2');
  await installation.owner(NEVER);
  expect(await installation.obstacle(NEVER)).toBeUndefined();
  removeRole();
  await installation.owner(NEVER);
  time += 10_000;
  expect(await installation.obstacle(NEVER)).toBeUndefined();
});

const owner = installationOwner('1');
const REFUSED = "cannot set an ownerRef on a resource you can't delete";

test.each([new ApiError(403, 'forbidden'), new ApiError(422, REFUSED)])(
  'a write with an owner fails if something else is refused: %s',
  async (error) => {
    await expect(installation.withOwner(owner, () => Promise.reject(error))).rejects.toBe(error);
  },
);

test('the namespace does not own a role that changes at the same moment: the role is read again', async () => {
  addRole('r');
  const patchMerge: typeof cluster.client.patchMerge = (kind, ref, patch) => {
    roles.patch(INSTALLATION_ROLE, { metadata: { uid: 's' } });
    return cluster.client.patchMerge(kind, ref, patch);
  };
  const link = createLinkInstallationReconciler({ ...cluster.client, patchMerge }, OWN_NAMESPACE, silent);
  await expect(link('', NEVER)).rejects.toMatchObject({ code: 409 });
  expect(roles.read(INSTALLATION_ROLE)?.metadata?.ownerReferences).toBeUndefined();
});

const SELECTS = { type: 'ClusterIP', selector: { app: 'gatehouse' } };

test.each<[string, object | undefined, readonly { readonly ready?: boolean }[], string | undefined]>([
  ['not without the Service', undefined, [], `Service ${OWN_NAMESPACE}/gatehouse does not exist`],
  ['a Service without selector leads elsewhere', { ports: [] }, [], undefined],
  ['so does an ExternalName', { ...SELECTS, type: 'ExternalName' }, [], undefined],
  ['no endpoint', SELECTS, [], 'no endpoint is ready'],
  ['no endpoint that is ready', SELECTS, [{ ready: false }], 'no endpoint is ready'],
  ['one ready endpoint', SELECTS, [{ ready: false }, { ready: true }], undefined],
  ['an endpoint whose readiness is unknown, which counts as ready', SELECTS, [{}], undefined],
])('whether a replica can serve: %s', async (_what, spec, conditions, problem) => {
  removeService();
  if (spec !== undefined) addService(spec);
  for (const [service, endpoints] of [
    ['another', [{ conditions: { ready: true } }]],
    ['gatehouse', conditions.map((one) => ({ conditions: one }))],
  ] as const) {
    const labels = { 'kubernetes.io/service-name': service };
    const slice = { metadata: { namespace: OWN_NAMESPACE, name: service, labels }, endpoints };
    cluster.objects<typeof slice>(endpointSlices).add(slice);
  }
  const found = await servingObstacle(cluster.client, PLACE, NEVER);
  if (problem === undefined) expect(found).toBeUndefined();
  else expect(found).toContain(problem);
});

test.each([
  ['lacks permission, which is a message', 403, undefined],
  ['gets no answer, which is an error', 500, 'away'],
])('the leader that %s', async (_what, code, error) => {
  addService({ selector: { app: 'gatehouse' } });
  const listAll = () => Promise.reject(new ApiError(code, 'away'));
  const found = servingObstacle({ ...cluster.client, listAll }, PLACE, NEVER);
  if (error !== undefined) await expect(found).rejects.toThrow(error);
  else expect(await found).toContain('the leader lacks permission to list the EndpointSlices');
});

test.each([
  ['over if a mutating entry fails closed', mutatingWebhookConfigurations, 'Fail', {}, true],
  ['over if a validating entry fails closed', validatingWebhookConfigurations, 'Fail', {}, true],
  ['not over if all entries fail open', validatingWebhookConfigurations, 'Ignore', {}, false],
  ['not over in another namespace', mutatingWebhookConfigurations, 'Fail', { namespace: 'other' }, false],
  ['not over for another Service', mutatingWebhookConfigurations, 'Fail', { name: 'other' }, false],
  ['not over for another port', mutatingWebhookConfigurations, 'Fail', { port: 8443 }, false],
  ['not over for a URL', mutatingWebhookConfigurations, 'Fail', undefined, false],
] as const)('the first installation is %s', async (_what, kind, failurePolicy, change, isOver) => {
  const clientConfig =
    change === undefined ? { url: 'https://192.0.2.1' } : { service: { ...TARGET, ...change } };
  const webhooks = [{ name: 'w', failurePolicy, clientConfig }] as unknown as readonly LiveWebhook[]; // the parts that count
  cluster.objects<LiveWebhookConfiguration>(kind).add({ metadata: { name: 'gatehouse' }, webhooks });
  const waitsFor = createFirstInstallation(cluster.client, TARGET, () => Promise.resolve('no replica'));
  expect(await waitsFor(NEVER)).toBe(isOver ? undefined : 'no replica');
});

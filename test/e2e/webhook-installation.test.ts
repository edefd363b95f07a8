// suite: shared-plane, sandbox: long
/**
 * Policies whose webhooks the API server does not accept, or not yet, or whose targets are missing after a restart; and more concurrent
 * reviews than a replica accepts.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';

import {
  configMaps,
  customResourceDefinitions,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import { startApiProxy, type ApiProxy } from '../support/api-proxy.ts';
import {
  ADMISSION_POLICIES,
  applyExamples,
  createNamespace,
  DATACENTERS,
  SERVERS,
  startClusterFor,
  type Cluster,
  untilGone,
} from '../support/cluster.ts';
import { testsSandbox } from '../support/control-plane.ts';
import { refusal, seeInForce, untilRefused, webhooksOf } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica, sumOf } from '../support/gatehouse.ts';
import {
  admissionPolicy,
  condition as conditionOf,
  datacenter,
  server,
  type Conditioned,
  configMap,
  configMapsWith,
} from '../support/objects.ts';
import { eventually, freePort } from '../support/processes.ts';

let cluster: Cluster;
let proxy: ApiProxy;
let replica: Replica;
let port: number;

/** The replica's limit; one webhook may use half of it. */
const AT_A_TIME = 4;

/** Until it resolves, the proxy holds reads of Datacenters whose names begin with `slow`. */
const letThrough = Promise.withResolvers<undefined>();

/** While it is true, the API server does not accept other webhook configurations. */
let isFrozen = false;
/** A label in a selector that the API server refuses. */
const REFUSED = 'refused-by-the-api-server';

const status = (code: number, reason: string, message: string) => ({
  code,
  body: { apiVersion: 'v1', kind: 'Status', status: 'Failure', code, reason, message },
});

beforeAll(async () => {
  port = await freePort();
  cluster = await startClusterFor(port);
  proxy = await startApiProxy(cluster.plane, 'one', async (method, path, body) => {
    if (method === 'GET' && path.includes('/datacenters/slow')) await letThrough.promise;
    if (method === 'GET' || !path.includes('webhookconfigurations')) return undefined;
    if (JSON.stringify(body).includes(REFUSED)) return status(422, 'Invalid', 'one selector is invalid');
    return isFrozen && !path.includes('dryRun') ? status(503, 'ServiceUnavailable', 'frozen') : undefined;
  });
  await start();
  await createNamespace(cluster, 'shop');
});

afterAll(async () => {
  await replica.program.stop(15_000);
  await proxy.stop();
  await cluster.stop();
});

async function start(): Promise<void> {
  const { folder } = cluster.plane;
  replica = await startReplica(
    { kubeconfig: proxy.kubeconfig, folder },
    { name: 'one', port, settings: { 'max-admission-reviews': String(AT_A_TIME) } },
  );
  await replica.whenReady();
}

async function restart(): Promise<void> {
  await replica.program.stop(15_000);
  await start();
}

/** A policy that refuses ConfigMaps of a colour. Policies with equal scopes share a webhook. */
const without = (color: string, scope: object = {}, match: object = {}) =>
  admissionPolicy(`no-${color}`, {
    match: { ...configMapsWith({ painted: 'yes' }), ...match },
    validate: { rules: [{ expression: `object.data.color != '${color}'`, message: `${color} is out` }] },
    ...scope,
  });

const paint = (color: string) =>
  cluster.admin.create(configMaps, configMap('a', { color }, { labels: { painted: 'yes' } }), {
    dryRun: true,
  });

const govern = async (color: string) => {
  await cluster.apply(without(color));
  await seeInForce(cluster, `no-${color}`);
  await untilRefused(color, `${color} is out`, () => paint(color));
};

const conditionsOf = async (name: string, isExpected: (object: Conditioned) => boolean) => {
  const policy = await cluster.see<Conditioned>(name, ADMISSION_POLICIES, { name }, isExpected);
  return { ready: conditionOf(policy, 'Ready'), installed: conditionOf(policy, 'WebhooksInstalled') };
};

const build = (place: string) => cluster.admin.create(SERVERS, server('shop', 's', place), { dryRun: true });

test('a policy that moves to another webhook is enforced in each moment, even after a restart', async () => {
  await govern('red');
  await govern('blue');
  isFrozen = true;
  await cluster.apply(without('red', { timeoutSeconds: 10 }));
  const { ready, installed } = await conditionsOf('no-red', (object) => {
    const observed = conditionOf(object, 'Ready') as { observedGeneration?: number } | undefined;
    return observed?.observedGeneration === 2;
  });
  expect((await refusal(paint('red'))).message).toContain('red is out');
  expect((await refusal(paint('blue'))).message).toContain('blue is out');
  expect(ready).toMatchObject({ status: 'False', reason: 'NotInstalled' });
  expect(ready?.message).toContain('generation 1 remains in force');
  expect(installed?.status).toBe('False');

  await restart();
  expect((await refusal(paint('red'))).message).toContain('red is out');
  expect((await refusal(paint('blue'))).message).toContain('blue is out');

  isFrozen = false;
  await seeInForce(cluster, 'no-red');
  expect((await refusal(paint('red'))).message).toContain('red is out');
});

test('a deleted policy refuses nothing while its webhook cannot be removed', async () => {
  await cluster.apply(without('green', { timeoutSeconds: 7 }));
  await seeInForce(cluster, 'no-green');
  await untilRefused('green', 'green is out', () => paint('green'));
  isFrozen = true;
  await cluster.admin.delete(ADMISSION_POLICIES, { name: 'no-green' });
  await eventually('green is allowed', () => paint('green').catch(() => undefined));
  isFrozen = false;
});

test('webhooks that the API server refuses do not keep others from being installed or removed', async () => {
  // The sandbox does not have an authorizer, so it refuses such a condition itself.
  const condition = { name: 'may', expression: "authorizer.path('/a').check('get').allowed()" };
  const refused = testsSandbox()
    ? { matchConditions: [condition] }
    : { objectSelector: { matchLabels: { [REFUSED]: 'yes' } } };
  await cluster.apply(without('pink', {}, refused));
  const { ready, installed } = await conditionsOf(
    'no-pink',
    (object) => conditionOf(object, 'Ready')?.reason === 'WebhooksRefused',
  );
  expect(ready?.message).toContain(
    testsSandbox() ? 'matchConditions[0].expression' : 'one selector is invalid',
  );
  expect(ready?.message).toContain('nothing is enforced');
  expect(installed?.status).toBe('False');
  await govern('grey');
  await cluster.admin.delete(ADMISSION_POLICIES, { name: 'no-grey' });
  await eventually('grey is allowed', () => paint('grey').catch(() => undefined));
});

test('after a restart without the CRD of its target, a policy keeps its webhook and asks for a retry', async () => {
  await applyExamples(cluster);
  await seeInForce(cluster, 'servers');
  await untilRefused('a Server without its datacenter', 'spec.datacenter', () => build('nowhere'));
  const name = `${DATACENTERS.resource}.${DATACENTERS.group}`;
  await cluster.admin.delete(customResourceDefinitions, { name });
  await untilGone(cluster, customResourceDefinitions, { name });
  await restart();
  await conditionsOf('servers', (object) => conditionOf(object, 'Ready')?.reason === 'UnknownTarget');
  await untilRefused('a Server', 'policy servers is in force but cannot be evaluated', () => build('fra1'));
  const webhooks = await webhooksOf(cluster, validatingWebhookConfigurations);
  expect(webhooks.map(({ name: webhook }) => webhook)).toContainEqual(expect.stringMatching(/^fail-5s-/));
  await applyExamples(cluster);
  await cluster.admin.create(DATACENTERS, datacenter('fra1'));
  await eventually('a Server is accepted', () => build('fra1').catch(() => undefined));
});

test('a create succeeds although its first answer was a 429', async () => {
  // The longest timeout that the API server allows.
  await cluster.admin.patchMerge(ADMISSION_POLICIES, { name: 'servers' }, { spec: { timeoutSeconds: 30 } });
  await eventually('its entry', async () =>
    (await webhooksOf(cluster, validatingWebhookConfigurations)).some(({ name }) =>
      name.startsWith('fail-30s-'),
    ),
  );
  await seeInForce(cluster, 'servers');
  await untilRefused('a Server without its datacenter', 'spec.datacenter', () => build('nowhere'));
  const refused = () => sumOf([replica], 'gatehouse_admission_reviews_refused_total{reason="entry"}');
  const held = Array.from({ length: AT_A_TIME / 2 }, (_, n) =>
    cluster.admin.create(SERVERS, server('shop', `held-${n}`, `slow-${n}`)),
  );
  const ended = Promise.allSettled(held);
  await eventually(
    'the requests are held',
    async () => (await sumOf([replica], 'gatehouse_admission_reviews_in_flight')) === held.length,
  );
  const before = await refused();
  const created = cluster.admin.create(SERVERS, server('shop', 'patient', 'fra1'));
  await eventually('the request was refused once', async () => (await refused()) > before);
  expect(await cluster.admin.get(SERVERS, { namespace: 'shop', name: 'patient' })).toBeUndefined();
  letThrough.resolve(undefined);
  for (const result of await ended)
    expect(result).toMatchObject({
      status: 'rejected',
      reason: { message: expect.stringContaining('slow-') as string },
    });
  expect(await created).toMatchObject({ spec: { datacenter: 'fra1', tier: 'standard' } });
});

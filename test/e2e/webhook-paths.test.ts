// suite: shared-plane, sandbox: long, slow
/** The unguessable segment of the webhook paths: other clients are not answered, and its rotation does not lose a request. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { parsePathTokens, tokensIn, webhookPath } from '../../src/admission/webhooks/path-tokens.ts';
import type { LiveWebhookConfiguration } from '../../src/admission/webhooks/dev-entries.ts';
import {
  mutatingWebhookConfigurations,
  secrets,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import { type Balancer } from '../support/balancer.ts';
import { SERVERS, SERVING, SYSTEM_NAMESPACE, type Cluster } from '../support/cluster.ts';
import { endpointOf, enforceExamples, refusal, startBalanced } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica, sumOf } from '../support/gatehouse.ts';
import { startLoad } from '../support/load.ts';
import { server, type SecretObject, restoreWindow } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { post, reviewOf } from '../support/webhook-client.ts';

const PATHS = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-webhook-path' };
const RATE = 40;
/**
 * The overlap of two tokens; replicas accept the old one for ten seconds more. A replica that stops answers long enough for the
 * API server to leave each connection to it.
 */
const settings = { 'ca-propagation-wait': '1s', 'drain-delay': '3s' } as const;

let balancer: Balancer;
let cluster: Cluster;
let replicas: Replica[] = [];

async function another(name: string): Promise<Replica> {
  const replica = await startReplica(cluster.plane, { name, servicePort: balancer.port, settings });
  await replica.whenReady();
  replicas.push(replica);
  balancer.setBackends(replicas.map(({ port }) => port));
  return replica;
}

async function remove(replica: Replica): Promise<void> {
  replicas = replicas.filter((other) => other !== replica);
  balancer.setBackends(replicas.map(({ port }) => port));
  await replica.program.stop(15_000);
}

beforeAll(async () => {
  ({ balancer, cluster } = await startBalanced());
  await another('one');
  await enforceExamples(cluster);
  await another('two');
});

afterAll(() => cluster.stop());

const configurations = () =>
  Promise.all(
    [mutatingWebhookConfigurations, validatingWebhookConfigurations].map((kind) =>
      cluster.admin.get<LiveWebhookConfiguration>(kind, { name: 'gatehouse' }),
    ),
  );
const entries = async () => (await configurations()).flatMap((found) => found?.webhooks ?? []);
const inUse = async () => tokensIn(await entries());
const current = async (): Promise<string> => (await inUse())[0] ?? '';
const stored = async () => parsePathTokens((await cluster.admin.get<SecretObject>(secrets, PATHS))?.data);

/** The HTTP status that a client on the network gets. */
async function knock(token: string, entry = 'own-opening', body = reviewOf()) {
  const [first] = replicas;
  if (first === undefined) throw new Error('no replica');
  return await post(
    await endpointOf(cluster, first),
    `${webhookPath('validate', token, entry)}?timeout=5s`,
    body,
  );
}

const admit = (n: number) =>
  cluster.admin.create(SERVERS, server('shop', `load-${n}`, 'fra1'), { dryRun: true });

/** Runs `work` while requests arrive. @throws if one fails */
async function underLoad(work: () => Promise<unknown>): Promise<void> {
  const load = startLoad({ perSecond: RATE, request: admit });
  await work();
  const { sent, failures } = await load.stop();
  expect(failures).toEqual([]);
  expect(sent).toBeGreaterThan(RATE / 2);
}

const untilRotatedFrom = (token: string) =>
  eventually('the configurations have another token', async () => {
    const now = await inUse();
    return now.length === 1 && now[0] !== token;
  });

test('every path has the current token of the Secret, and the API server gets its answers', async () => {
  const [token] = await inUse();
  expect(await inUse()).toHaveLength(1);
  expect((await stored())?.current).toBe(token);
  await admit(0);
  expect((await refusal(cluster.admin.create(SERVERS, server('shop', 'bad', 'nowhere')))).message).toContain(
    'nowhere',
  );
});

test('a forged request without the token gets 404, and Gatehouse looks nothing up for it', async () => {
  const names = { group: 'gatehouse.dev', version: 'v1alpha1' };
  const review = reviewOf({
    kind: { ...names, kind: 'RestoreWindow' },
    resource: { ...names, resource: 'restorewindows' },
    object: restoreWindow('forged'),
  });
  const asked = () => sumOf(replicas, 'rest_client_request_duration_seconds_count{verb="POST"');
  const reviews = await sumOf(replicas, 'gatehouse_admission_duration_seconds_count');
  const [before, rejected] = [
    await asked(),
    await sumOf(replicas, 'gatehouse_rejected_requests_total{code="404"}'),
  ];
  for (let n = 0; n < 30; n++)
    for (const token of ['', n.toString(16).padStart(32, '0')])
      expect(await knock(token, 'own-opening', review)).toMatchObject({ status: 404 });
  expect(await sumOf(replicas, 'gatehouse_rejected_requests_total{code="404"}')).toBe(rejected + 60);
  expect(await sumOf(replicas, 'gatehouse_admission_duration_seconds_count')).toBe(reviews);
  expect((await asked()) - before).toBeLessThan(30);
  // The same request with the token is answered.
  expect(await knock(await current(), 'own-opening', review)).toMatchObject({ status: 200 });
});

test('no request fails while the token rotates with the serving certificate, and then the old one gets 404', async () => {
  const first = await current();
  let last = first;
  // The leader rotates when another certificate than the recorded one is served.
  await eventually(
    'the certificate is recorded with the token',
    async () => (await stored())?.certificate !== undefined,
  );
  await underLoad(async () => {
    for (let rotation = 1; rotation <= 3; rotation++) {
      await cluster.admin.delete(secrets, SERVING);
      await untilRotatedFrom(last);
      last = await current();
      // A replica that starts during the overlap reads both tokens from the Secret.
      if (rotation === 1) await another('three');
      if (rotation === 2) await remove(replicas.at(-1) ?? (undefined as never));
    }
  });
  await eventually('the first token gets 404', async () => (await knock(first)).status === 404);
  expect((await knock(last)).status).not.toBe(404);
});

test('no request fails while the Secret is deleted, and the token in use stays', async () => {
  const token = await current();
  await underLoad(async () => {
    await cluster.admin.delete(secrets, PATHS);
    await eventually('the leader creates it again', async () => (await stored()) !== undefined);
    expect((await stored())?.current).toBe(token);
    await untilRotatedFrom(token);
  });
});

test('neither the logs nor the metrics show a token', async () => {
  const { previous, current: used, next } = (await stored()) ?? {};
  const tokens = [previous, used, next].filter((token) => token !== undefined && token !== '') as string[];
  expect(tokens.length).toBeGreaterThan(1);
  const shown = [...replicas.map(({ program }) => readFileSync(program.logFile, 'utf8'))];
  for (const replica of replicas) shown.push(await replica.metrics());
  for (const token of tokens) expect(shown.filter((page) => page.includes(token))).toEqual([]);
  // The API server quotes the URL while Gatehouse does not answer: our own errors hide the token.
  for (const replica of [...replicas]) await remove(replica);
  const { message } = await refusal(admit(0));
  expect(message).toContain('failed calling webhook');
  for (const token of tokens) expect(message).not.toContain(token);
});

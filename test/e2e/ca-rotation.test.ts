// suite: shared-plane, sandbox: long
/** The lifecycle of the CA, in a complete replica against an API server. */
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { configMaps, events, secrets } from '../../src/kube/well-known.ts';
import { AUTHORITY, BUNDLE, SERVING, SYSTEM_NAMESPACE, type Cluster } from '../support/cluster.ts';
import { startGatehouse } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { endTrust } from '../support/end-trust.ts';
import { seeEvent } from '../support/injection-objects.ts';
import { text, type EventObject, type SecretObject } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { nodeVerdict } from '../support/trust-verdicts.ts';

const HOST = `gatehouse.${SYSTEM_NAMESPACE}.svc`;
const SETTINGS = { 'ca-propagation-wait': '1s' } as const;

let cluster: Cluster;
let replica: Replica;

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({ settings: SETTINGS }));
});

afterAll(() => cluster.stop());

interface Listed {
  readonly id: string;
  readonly state: string;
}

async function generations(): Promise<readonly Listed[]> {
  const secret = await cluster.admin.get<SecretObject>(secrets, AUTHORITY);
  return secret === undefined ? [] : (JSON.parse(text(secret, 'generations.json')) as readonly Listed[]);
}

async function served() {
  const secret = await cluster.admin.get<SecretObject>(secrets, SERVING);
  if (secret === undefined) throw new Error('there is no serving secret');
  return { chain: text(secret, 'tls.crt'), key: text(secret, 'tls.key') };
}

/** Waits for the first bundle: a replica can be ready before the leader has published it. */
const bundle = () =>
  eventually('the CA bundle is published', async () => {
    const map = await cluster.admin.get<SecretObject>(configMaps, BUNDLE);
    return map?.data?.['ca.crt'];
  });

const annotate = (annotations: Readonly<Record<string, string>>) =>
  cluster.admin.patchMerge(secrets, AUTHORITY, { metadata: { annotations } });

const statesAre = (wanted: string) =>
  eventually(
    `the generations are ${wanted}`,
    async () => (await generations()).map(({ state }) => state).join() === wanted,
  );

test('service-ca e2e forced-ca-rotation, cert-manager TestDynamicSource_CARotation: old and new clients and servers trust each other, and the old CA is removed', async () => {
  const [first] = await generations();
  const before = { server: await served(), bundle: await bundle() };
  await annotate({ 'gatehouse.dev/rotate': 'test' });
  await statesAre('active,retiring');
  await eventually(
    'the serving cert is reissued',
    async () => (await served()).chain !== before.server.chain,
  );
  const behind = { server: await served(), bundle: await bundle() };
  for (const { server } of [before, behind])
    for (const ca of [before.bundle, behind.bundle])
      expect(await nodeVerdict({ ...server, privateKey: server.key }, ca, HOST)).toBe('ok');

  const whole = await cluster.admin.get<SecretObject>(secrets, AUTHORITY);
  const [newest, retiring] = await generations();
  const moved = JSON.stringify([newest, { ...retiring, trustedUntil: '2020-01-01T00:00:00Z' }]);
  for (const data of [
    { [`${newest?.id ?? ''}.bridge.crt`]: null },
    { 'generations.json': Buffer.from(moved).toString('base64') },
  ]) {
    await cluster.admin.patchMerge(secrets, AUTHORITY, { data });
    await eventually('the lost part is restored', async () => {
      const live = await cluster.admin.get<SecretObject>(secrets, AUTHORITY);
      return isDeepStrictEqual(live?.data, whole?.data);
    });
  }
  expect(await served()).toEqual(behind.server);
  await seeEvent(cluster, SYSTEM_NAMESPACE, AUTHORITY.name, 'SignerRestored');

  await endTrust(cluster);
  await statesAre('active');
  expect((await generations())[0]?.id).not.toBe(first?.id);
  const told = ['RotationStarted', 'RotationPublished', 'RotationActivated', 'RotationRetired'];
  await eventually('Events report the steps', async () => {
    const { items } = await cluster.admin.list<EventObject>(events, { namespace: SYSTEM_NAMESPACE });
    const reasons = new Set(items.map(({ reason }) => reason));
    return told.every((reason) => reasons.has(reason));
  });
  expect(await replica.metrics()).toMatch(/gatehouse_rotation_phase\{phase="steady"\} 1/);
});

test('an immutable bundle is named once, with the cause, and has an Event', async () => {
  const roots = await bundle();
  await cluster.admin.patchMerge(configMaps, BUNDLE, { immutable: true });
  await annotate({ 'gatehouse.dev/rotate': 'while the bundle is immutable' });
  const refused = await seeEvent(cluster, SYSTEM_NAMESPACE, BUNDLE.name, 'WriteRefused');
  expect(refused.message).toContain('it is immutable. Delete it, and Gatehouse creates it again');
  // An earlier rotation may have waited for something else.
  const waiting = await eventually('the cause', async () => {
    const { items } = await cluster.admin.list<EventObject>(events, { namespace: SYSTEM_NAMESPACE });
    return items.find(({ reason, message }) => reason === 'RotationWaiting' && message.includes(BUNDLE.name));
  });
  expect(waiting.message.split(BUNDLE.name)).toHaveLength(2);
  expect(waiting.message).toContain('it is immutable');
  await cluster.admin.delete(configMaps, BUNDLE);
  await eventually('the bundle has the new root', async () => {
    const live = await cluster.admin.get<SecretObject>(configMaps, BUNDLE);
    return (live?.data?.['ca.crt'] ?? roots) !== roots;
  });
  await statesAre('active,retiring');
  await endTrust(cluster);
  await statesAre('active');
});

test('without a good copy, a lost bridge is reported, and nothing acts on it', async () => {
  await annotate({ 'gatehouse.dev/rotate': 'for a bridge' });
  await statesAre('active,retiring');
  const [newest] = await generations();
  const bridge = `${newest?.id ?? ''}.bridge.crt`;
  const whole = await cluster.admin.get<SecretObject>(secrets, AUTHORITY);
  await replica.program.stop(30_000);
  await cluster.admin.patchMerge(secrets, AUTHORITY, { data: { [bridge]: null } });
  const before = await served();
  replica = await startReplica(cluster.plane, { name: 'one', port: replica.port, settings: SETTINGS });
  await replica.whenReady();
  const { message } = await seeEvent(cluster, SYSTEM_NAMESPACE, AUTHORITY.name, 'SignerBroken');
  expect(message).toContain(`${bridge}: it is missing, and generations.json lists it`);
  expect(await served()).toEqual(before);
  await cluster.admin.patchMerge(secrets, AUTHORITY, { data: { [bridge]: whole?.data?.[bridge] ?? '' } });
  await endTrust(cluster);
  await statesAre('active');
});

test('service-ca e2e refresh-CA, cert-manager TestDynamicAuthority_Recreates: a deleted Secret is restored with the same content', async () => {
  const before = await generations();
  await cluster.admin.delete(secrets, AUTHORITY);
  await eventually('the Secret is restored', async () => (await generations()).length === before.length);
  expect(await generations()).toEqual(before);
});

test('D5: a leader that finds garbage reports it and continues to serve, until a user consents to a new authority', async () => {
  await replica.program.stop(30_000);
  const before = await served();
  await cluster.admin.patchMerge(secrets, AUTHORITY, { data: { 'generations.json': 'eA==' } });
  replica = await startReplica(cluster.plane, { name: 'two', port: replica.port, settings: SETTINGS });
  await replica.whenReady();
  await eventually('an Event reports it', async () =>
    (await replica.metrics()).includes('gatehouse_authority_broken{reason="Unreadable"} 1'),
  );
  expect(await served()).toEqual(before);

  await annotate({ 'gatehouse.dev/new-authority': 'test' });
  await eventually('a new serving cert', async () => (await served()).chain !== before.chain);
  expect(await nodeVerdict({ ...before, privateKey: before.key }, await bundle(), HOST)).toBe('ok');
  await statesAre('active,retiring');
  await endTrust(cluster);
  await statesAre('active');
});

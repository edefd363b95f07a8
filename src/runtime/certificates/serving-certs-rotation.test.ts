/** What a rotation of the authority changes in serving Secrets, and Secrets that the watch does not cover. */
import { beforeEach, expect, test } from 'vitest';

import { remove } from '../../pki/authority/authority.ts';
import { after, DAY, MINUTE } from '../../pki/durations.ts';
import { splitCertificates } from '../../pki/x509/pem.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { activated, firstAuthority, prepared, rotated } from '../../../test/support/pki/fixtures.ts';
import { NEVER } from '../../../test/support/runtime/fixtures.ts';
import {
  createWorld,
  serviceNamed,
  type Change,
  type ServingCertsWorld,
} from '../../../test/support/runtime/serving-certs.ts';

const start = new Date('2026-11-21T12:00:00Z');
const authority = await firstAuthority(start);
let world: ServingCertsWorld;

beforeEach(() => {
  world = createWorld(authority, start);
  world.add(serviceNamed('db', { 'gatehouse.dev/serving-cert-outputs': 'combined-pem' }));
});

function content() {
  const text = (key: string) => world.file(key).toString();
  const [leaf, ...bridges] = splitCertificates(text('tls.crt'));
  return {
    leaf: leaf?.fingerprint256,
    bridges: bridges.length,
    roots: splitCertificates(text('ca.crt')).length,
    key: text('tls.key'),
    isCombined: text('tls-combined.pem') === text('tls.key') + text('tls.crt'),
  };
}

test('a rotation makes one new leaf and key: its other steps change only the chain and the bundle', async () => {
  await world.run('db');
  const first = content();

  world.authority = await prepared(authority, start);
  await world.run('db');
  expect(content()).toEqual({ ...first, roots: 2 });

  world.authority = activated(world.authority, start);
  await world.run('db');
  const second = content();
  expect(second).toMatchObject({ bridges: 1, roots: 2 });
  expect(second.leaf).not.toBe(first.leaf);
  expect(second.key).not.toBe(first.key);

  const [, old] = world.authority.generations;
  world.authority = remove(world.authority, [old?.id ?? '']);
  await world.run('db');
  expect(content()).toEqual({ ...second, bridges: 0, roots: 1 });
  await world.run('db');
  expect(world.secrets.writes()).toBe(4);
  expect(world.calls.keys).toBe(2);
  expect(content().isCombined).toBe(true);
});

test('a chain that another client changed is written again, with the same leaf and key', async () => {
  world.authority = await rotated(authority, start);
  await world.run('db');
  const before = world.secret();
  const leaf = Buffer.from(world.leaf().toString()).toString('base64');
  world.secrets.patch('prod/db-tls', { data: { 'tls.crt': leaf } });
  await world.run('db');
  expect(world.secret()?.data).toEqual(before?.data);
  expect(world.calls.keys).toBe(1);
});

/** The API server changes each Secret that is written. */
const changing = (change: (secret: Secret) => Secret): Change => ({
  client: {
    create: (_resource, secret) => world.secrets.create(change(secret)) as Promise<never>,
    replace: (_resource, secret) => world.secrets.replace(change(secret)) as Promise<never>,
  },
});

test.each<[string, (secret: Secret) => Secret]>([
  ['that is written as it is', (secret) => secret],
  [
    'whose label an admission policy removes',
    (secret) => ({ ...secret, metadata: { ...secret.metadata, labels: {} } }),
  ],
])(
  'a Secret %s is checked again when its renewal is due, although no watch may report it',
  async (_which, change) => {
    const reconcile = world.reconciler(changing(change));
    const run = () => reconcile('prod/db', NEVER);
    const result = await run();
    if (result.kind !== 'requeue') throw new Error(`expected a requeue, not ${result.kind}`);
    expect(await run()).toEqual(result);
    expect(result.at > after(start, 45 * DAY)).toBe(true);
    expect(result.at <= after(start, 60 * DAY)).toBe(true);
    const before = content();
    world.now = result.at;
    expect(await run()).toMatchObject({ kind: 'requeue' });
    expect(content().leaf).not.toBe(before.leaf);
    expect(world.calls.keys).toBe(2); // and none for a creation that cannot succeed
  },
);

test('a cert that the API server changes at each write is tried again after a minute, not at once', async () => {
  const emptied = changing((secret) => ({ ...secret, data: { ...secret.data, 'tls.key': '' } }));
  expect(await world.run('db', emptied)).toEqual({ kind: 'requeue', at: after(start, 60_000) });
});

test('a Service is told if its cert waits for more than a minute for the record of trust', async () => {
  const generations = authority.generations.map((one) => ({ ...one, trustedUntil: start }));
  world.authority = { ...authority, generations };
  let extensions = 0;
  const reconcile = world.reconciler({ extendTrust: () => extensions++ });
  const soon = { kind: 'requeue', at: after(start, MINUTE) };
  expect(await reconcile('prod/db', NEVER)).toEqual(soon);
  expect(world.events.all).toEqual([]);
  world.now = soon.at;
  await reconcile('prod/db', NEVER);
  await reconcile('prod/db', NEVER);
  expect(world.events.all).toMatchObject([
    { regarding: { kind: 'Service', name: 'db' }, type: 'Warning', reason: 'TrustNotRecorded' },
  ]);
  expect(world.observed).toContain('refused TrustNotRecorded');
  expect(extensions).toBe(3);
  world.authority = authority;
  await reconcile('prod/db', NEVER);
  expect(world.events.reasons()).toEqual(['TrustNotRecorded', 'Issued']);
});

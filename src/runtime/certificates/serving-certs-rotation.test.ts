/** What a rotation of the authority changes in serving Secrets, and Secrets that the watch does not cover. */
import { X509Certificate } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { remove, type Authority } from '../../pki/authority/authority.ts';
import { after, DAY, MINUTE } from '../../pki/durations.ts';
import { splitCertificates } from '../../pki/x509/pem.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { activated, firstAuthority, prepared, rotated } from '../../../test/support/pki/fixtures.ts';
import { NEVER } from '../../../test/support/runtime/fixtures.ts';
import {
  createWorld,
  serviceNamed,
  type ServingCertsWorld,
} from '../../../test/support/runtime/serving-certs.ts';

const start = new Date('2026-11-21T12:00:00Z');
let authority: Authority;
let world: ServingCertsWorld;

beforeAll(async () => {
  authority = await firstAuthority(start);
});
beforeEach(() => {
  world = createWorld(authority, start);
  world.add(serviceNamed('db', { 'gatehouse.dev/serving-cert-outputs': 'combined-pem' }));
});

function content() {
  const { data = {} } = world.secret('db-tls') ?? {};
  const text = (key: string) => Buffer.from(data[key] ?? '', 'base64').toString();
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
  const before = world.secret('db-tls');
  world.secrets.edit('prod/db-tls', (secret) => {
    const chain = Buffer.from(secret.data?.['tls.crt'] ?? '', 'base64').toString();
    const leaf = Buffer.from(new X509Certificate(chain).toString()).toString('base64');
    return { ...secret, data: { ...secret.data, 'tls.crt': leaf } };
  });
  await world.run('db');
  expect(world.secret('db-tls')?.data).toEqual(before?.data);
  expect(world.calls.keys).toBe(1);
});

describe('a Secret whose label an admission policy removes', () => {
  const unlabelled = (secret: Secret): Secret => ({
    ...secret,
    metadata: { ...secret.metadata, labels: {} },
  });
  const reconciler = () =>
    world.reconciler({
      client: {
        create: (_resource, secret) => world.secrets.create(unlabelled(secret)) as Promise<never>,
        replace: (_resource, secret) => world.secrets.replace(unlabelled(secret)) as Promise<never>,
      },
    });

  test('is checked again when its renewal is due, although no watch reports it', async () => {
    const reconcile = reconciler();
    const run = () => reconcile('prod/db', NEVER);
    const result = await run();
    if (result.kind !== 'requeue') throw new Error(`expected a requeue, not ${result.kind}`);
    expect(result.at > after(start, 45 * DAY)).toBe(true);
    expect(result.at <= after(start, 60 * DAY)).toBe(true);
    const before = content();
    world.now = result.at;
    expect(await run()).toMatchObject({ kind: 'requeue' });
    expect(content().leaf).not.toBe(before.leaf);
    expect(world.calls.keys).toBe(2); // and none for a creation that cannot succeed
  });
});

test('a new cert is checked again when its renewal is due, although its Secret may never reach the store', async () => {
  const result = await world.run('db');
  if (result.kind !== 'requeue') throw new Error(`expected a requeue, not ${result.kind}`);
  expect(await world.run('db')).toEqual(result);
});

test('a cert that the API server changes at each write is tried again after a minute, not at once', async () => {
  const emptied = (secret: Secret): Secret => ({ ...secret, data: { ...secret.data, 'tls.key': '' } });
  const result = await world.run('db', {
    client: {
      create: (_resource, secret) => world.secrets.create(emptied(secret)) as Promise<never>,
    },
  });
  expect(result).toEqual({ kind: 'requeue', at: after(start, 60_000) });
});

test('a Service is told if its cert waits for more than a minute for the record of trust', async () => {
  const { generations } = authority;
  world.authority = {
    ...authority,
    generations: generations.map((one) => ({ ...one, trustedUntil: start })),
  };
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

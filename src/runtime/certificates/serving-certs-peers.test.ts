/** Test cases from cert-manager's DynamicSource and from Knative's certificate reconciler. */
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';

import type { Authority } from '../../pki/authority/authority.ts';
import { after, DAY } from '../../pki/durations.ts';
import { base64, firstAuthority, rotated } from '../../../test/support/pki/fixtures.ts';
import { generateKeyPair } from '../../pki/x509/keys.ts';
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
  world.add(serviceNamed('db'));
});

const certIn = () => world.secret('db-tls')?.data?.['tls.crt'];
const edit = (data: Readonly<Record<string, string>>) => {
  world.secrets.edit('prod/db-tls', (secret) => ({ ...secret, data: { ...secret.data, ...data } }));
};

describe('cert-manager TestDynamicSource_FailingSign:', () => {
  const broken = () => Promise.reject(new Error('no entropy'));

  test('sign function returns error: no Secret is written, and the failure is retried', async () => {
    await expect(world.run('db', { generateKeyPair: broken })).rejects.toThrow('no entropy');
    expect(world.secret('db-tls')).toBeUndefined();
    expect(world.observed).toEqual(['failed Error']);
  });

  test('certificate authority stopped unexpectedly: the cert stays, and its expiry is scheduled', async () => {
    await world.run('db');
    const before = certIn();
    world.authority = undefined;
    expect(await world.run('db')).toEqual({ kind: 'await-change' });
    expect(certIn()).toBe(before);
  });

  test('sign function returns error (retry, then success)', async () => {
    let calls = 0;
    const reconcile = world.reconciler({
      generateKeyPair: (algorithm) => (++calls < 5 ? broken() : generateKeyPair(algorithm)),
    });
    for (let attempt = 1; attempt < 5; attempt++)
      await expect(reconcile('prod/db', NEVER)).rejects.toThrow('no entropy');
    await reconcile('prod/db', NEVER);
    expect(certIn()).toBeDefined();
  });

  test("don't rotate root: the cert stays", async () => {
    await world.run('db');
    const before = certIn();
    await world.run('db');
    expect(certIn()).toBe(before);
  });

  test('rotate root: each rotation gives another cert', async () => {
    const seen = new Set<string | undefined>();
    for (let generation = 0; generation < 4; generation++) {
      await world.run('db');
      seen.add(certIn());
      world.authority = await rotated(world.authority ?? authority, world.now);
    }
    expect(seen.size).toBe(4);
  });

  test('expire leaf: each expiry gives another cert', async () => {
    const seen = new Set<string | undefined>();
    for (let renewal = 0; renewal < 5; renewal++) {
      await world.run('db');
      seen.add(certIn());
      world.now = after(world.now, 80 * DAY);
    }
    expect(seen.size).toBe(5);
  });
});

describe('Knative TestReconcile:', () => {
  test('well formed secret exists: it stays', async () => {
    await world.run('db');
    const before = world.secret('db-tls');
    await world.run('db');
    expect(world.secret('db-tls')).toEqual(before);
  });

  test('secret does not exist: unlike in Knative, it is created', async () => {
    await world.run('db');
    expect(certIn()).toBeDefined();
  });

  test.each([
    ['missing server key', 'tls.key', 'Unreadable'],
    ['missing server cert', 'tls.crt', 'Unreadable'],
  ])('%s: a new key pair is created', async (_case, key, reason) => {
    await world.run('db');
    edit({ [key]: '' });
    await world.run('db');
    expect(world.secret('db-tls')?.data?.[key]).not.toBe('');
    expect(world.observed).toEqual(['issued Missing', `issued ${reason}`]);
  });

  test('missing CA cert: the bundle is restored, and the cert stays', async () => {
    await world.run('db');
    const before = world.secret('db-tls')?.data;
    edit({ 'ca.crt': '' });
    await world.run('db');
    expect(world.secret('db-tls')?.data).toEqual(before);
  });

  test.each([
    ['certificate expiring soon', 80, false],
    ['certificate not expiring soon', 20, true],
  ])('%s', async (_case, days, stays) => {
    await world.run('db');
    const before = certIn();
    world.now = after(start, days * DAY);
    await world.run('db');
    expect(certIn() === before).toBe(stays);
  });
});

describe('Knative TestReconcileMakeSecretFailure:', () => {
  const generate = { generateKeyPair: () => Promise.reject(new Error('no entropy')) };

  test('would return error, but not called', async () => {
    await world.run('db');
    await expect(world.run('db', generate)).resolves.toMatchObject({ kind: 'requeue' });
  });

  test.each([
    ['malformed secret', { 'tls.crt': base64('x'), 'tls.key': base64('y') }],
    ['missing server key', { 'tls.key': '' }],
  ])('%s: nothing is written, and the failure is retried', async (_case, data) => {
    await world.run('db');
    edit(data);
    const before = world.secret('db-tls');
    await expect(world.run('db', generate)).rejects.toThrow('no entropy');
    expect(world.secret('db-tls')).toEqual(before);
  });
});

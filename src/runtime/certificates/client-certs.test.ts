/** Client certs have the life of serving certs: these tests are about what differs. */
import { X509Certificate } from 'node:crypto';
import { beforeAll, beforeEach, expect, test } from 'vitest';

import type { Authority } from '../../pki/authority/authority.ts';
import { after, HOUR } from '../../pki/durations.ts';
import { base64, firstAuthority, rotated } from '../../../test/support/pki/fixtures.ts';
import {
  createWorld,
  serviceNamed,
  type ServingCertsWorld,
} from '../../../test/support/runtime/serving-certs.ts';

const start = new Date('2026-11-21T12:00:00Z');
const CLIENT = 'gatehouse.dev/client-cert-secret-name';
const SERVING = 'gatehouse.dev/serving-cert-secret-name';
const DURATION = 'gatehouse.dev/client-cert-duration';
const FOR_CLIENTS = '1.3.6.1.5.5.7.3.2';
const FOR_SERVERS = '1.3.6.1.5.5.7.3.1';
let authority: Authority;
let world: ServingCertsWorld;

beforeAll(async () => {
  authority = await firstAuthority(start);
});
beforeEach(() => {
  world = createWorld(authority, start);
});

/** The Secret `db-tls` is for servers. */
const ask = (annotations: Record<string, string>) => {
  world.add(serviceNamed('db', annotations));
};
const askOnly = (annotations: Record<string, string>) => {
  const { metadata } = serviceNamed('db');
  world.add({ metadata: { ...metadata, annotations } });
};
const leafOf = (name: string) =>
  new X509Certificate(Buffer.from(world.secret(name)?.data?.['tls.crt'] ?? '', 'base64'));

test('a Service gets a client cert and a serving cert, each in its own Secret, and a second run changes nothing', async () => {
  ask({ [CLIENT]: 'db-client', [DURATION]: '12h' });
  const result = await world.run('db');
  expect(leafOf('db-client').keyUsage).toEqual([FOR_CLIENTS]);
  expect(leafOf('db-tls').keyUsage).toEqual([FOR_SERVERS]);
  expect(leafOf('db-client').subjectAltName).toContain('DNS:db.prod.svc');
  expect(leafOf('db-client').validToDate).toEqual(after(start, 12 * HOUR));
  expect(world.secret('db-client')).toMatchObject({
    metadata: {
      labels: { 'gatehouse.dev/serving-cert': 'true' },
      ownerReferences: [{ kind: 'Service', name: 'db', uid: 'uid-of-db' }],
    },
  });
  expect(result.kind === 'requeue' && result.at < after(start, 9 * HOUR)).toBe(true); // the first renewal of both
  await world.run('db');
  expect(world.secrets.writes()).toBe(2);
});

test('a Service may ask for a client cert only', async () => {
  askOnly({ [CLIENT]: 'db-client' });
  await world.run('db');
  expect(leafOf('db-client').keyUsage).toEqual([FOR_CLIENTS]);
  expect(world.secrets.writes()).toBe(1);
});

test('each is repaired, renewed and rotated independently', async () => {
  ask({ [CLIENT]: 'db-client', [DURATION]: '12h' });
  await world.run('db');
  const serving = world.secret('db-tls');
  world.secrets.edit('prod/db-client', (secret) => ({
    ...secret,
    data: { ...secret.data, 'tls.key': base64('x') },
  }));
  await world.run('db');
  world.now = after(start, 11 * HOUR);
  await world.run('db');
  expect(world.observed).toEqual([
    'issued Missing',
    'issued Missing',
    'issued Unreadable',
    'issued RenewalDue',
  ]);
  expect(world.secret('db-tls')).toEqual(serving);
  world.authority = await rotated(authority, world.now);
  await world.run('db');
  expect(world.observed.slice(4)).toEqual(['issued SignerChanged', 'issued SignerChanged']);
});

test('the Secrets of both purposes may be swapped', async () => {
  ask({ [CLIENT]: 'db-client' });
  await world.run('db');
  askOnly({ [SERVING]: 'db-client', [CLIENT]: 'db-tls' });
  await world.run('db');
  expect(leafOf('db-client').keyUsage).toEqual([FOR_SERVERS]);
  expect(leafOf('db-tls').keyUsage).toEqual([FOR_CLIENTS]);
});

test('one invalid request does not stop the other, and each has its own Event, once', async () => {
  ask({ [CLIENT]: 'db-tls' });
  await world.run('db');
  await world.run('db');
  expect(leafOf('db-tls').keyUsage).toEqual([FOR_SERVERS]);
  expect(world.events.reasons().toSorted()).toEqual(['InvalidRequest', 'Issued']);

  world.secrets.edit('prod/db-tls', (secret) => ({ ...secret, type: 'Opaque' }));
  ask({ [CLIENT]: 'db-client', [DURATION]: 'soon' });
  await world.run('db');
  await world.run('db');
  expect(world.events.reasons().slice(2).toSorted()).toEqual(['InvalidRequest', 'SecretTypeConflict']);
});

test('an invalid client request does not mark the renewed serving Secret as stopped', async () => {
  ask({});
  await world.run('db');
  ask({ [CLIENT]: 'db-tls' });
  const stopped: string[] = [];
  const inventory = { ...world.inventory, stopped: (key: string) => stopped.push(key) > 0 };
  await world.run('db', { inventory });
  expect(world.events.reasons()).toEqual(['Issued', 'InvalidRequest']);
  expect(stopped).toEqual([]);
});

test('a failed write of one Secret does not keep the other from its cert', async () => {
  ask({ [CLIENT]: 'db-client' });
  const create = (_resource: unknown, secret: { metadata?: { name?: string } }) =>
    secret.metadata?.name === 'db-tls'
      ? Promise.reject(new Error('the connection broke'))
      : (world.secrets.create(secret) as Promise<never>);
  await expect(world.run('db', { client: { create } })).rejects.toThrow('the connection broke');
  expect(leafOf('db-client').keyUsage).toEqual([FOR_CLIENTS]);
});

test('a Secret for which the serving cert of an older Service asks is not given away', async () => {
  world.add({
    metadata: {
      ...serviceNamed('elder').metadata,
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
  });
  await world.run('elder');
  askOnly({ [CLIENT]: 'db-tls' });
  await world.run('db');
  expect(world.events.reasons()).toEqual(['Issued', 'SecretTaken']);
  expect(leafOf('db-tls').subjectAltName).toContain('elder');
});

test('the Secret of a client cert that is no longer requested is reported, or deleted', async () => {
  ask({ [CLIENT]: 'db-client', [SERVING]: 'db-tls' });
  await world.run('db');
  ask({});
  await world.run('db');
  expect(world.events.reasons()).toContain('RenewalStopped');
  expect([...world.inventory.stoppedByReason()]).toEqual([['NotRequested', 1]]);
  await world.run('db', { onRemoval: 'delete' });
  expect(world.secret('db-client')).toBeUndefined();
  expect(world.secret('db-tls')).toBeDefined();
});

test('a Secret that another client keeps reverting slows down only its own repairs', async () => {
  ask({ [CLIENT]: 'db-client' });
  await world.run('db');
  const spoil = (name: string) => {
    world.secrets.edit(`prod/${name}`, (secret) => ({ ...secret, data: { ...secret.data, 'ca.crt': '' } }));
  };
  for (let revert = 0; revert < 30; revert++) {
    spoil('db-client');
    await world.run('db');
  }
  expect(world.events.reasons()).toContain('SecretContended');
  spoil('db-tls');
  await world.run('db');
  expect(world.secret('db-tls')?.data?.['ca.crt']).not.toBe('');
  expect(world.secret('db-client')?.data?.['ca.crt']).toBe('');
});

/** Client certs have the life of serving certs: these tests are about what differs. */
import { beforeEach, expect, test, vi } from 'vitest';

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
const authority = await firstAuthority(start);
let world: ServingCertsWorld;

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
const patch = (name: string, change: object) => {
  world.secrets.patch(`prod/${name}`, change);
};

test('a Service gets a client cert and a serving cert, each in its own Secret, and a second run changes nothing', async () => {
  ask({ [CLIENT]: 'db-client', [DURATION]: '12h' });
  const result = await world.run('db');
  expect(world.leaf('db-client').keyUsage).toEqual([FOR_CLIENTS]);
  expect(world.leaf('db-tls').keyUsage).toEqual([FOR_SERVERS]);
  expect(world.leaf('db-client').subjectAltName).toContain('DNS:db.prod.svc');
  expect(world.leaf('db-client').validToDate).toEqual(after(start, 12 * HOUR));
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
  expect(world.leaf('db-client').keyUsage).toEqual([FOR_CLIENTS]);
  expect(world.secrets.writes()).toBe(1);
});

test('each is repaired, renewed and rotated independently', async () => {
  ask({ [CLIENT]: 'db-client', [DURATION]: '12h' });
  await world.run('db');
  const serving = world.secret('db-tls');
  patch('db-client', { data: { 'tls.key': base64('x') } });
  await world.run('db');
  world.now = after(start, 11 * HOUR);
  await world.run('db');
  expect(world.observed.slice(2)).toEqual(['issued Unreadable', 'issued RenewalDue']);
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
  expect(world.leaf('db-client').keyUsage).toEqual([FOR_SERVERS]);
  expect(world.leaf('db-tls').keyUsage).toEqual([FOR_CLIENTS]);
});

test('one invalid request does not stop the other, and each has its own Event, once', async () => {
  const stopped = vi.spyOn(world.inventory, 'stopped');
  ask({ [CLIENT]: 'db-tls' });
  await world.run('db');
  await world.run('db');
  expect(world.leaf('db-tls').keyUsage).toEqual([FOR_SERVERS]);
  expect(world.events.reasons().toSorted()).toEqual(['InvalidRequest', 'Issued']);
  expect(stopped).not.toHaveBeenCalled(); // the serving Secret is still renewed

  patch('db-tls', { type: 'Opaque' });
  ask({ [CLIENT]: 'db-client', [DURATION]: 'soon' });
  await world.run('db');
  await world.run('db');
  expect(world.events.reasons().slice(2).toSorted()).toEqual(['InvalidRequest', 'SecretTypeConflict']);
});

test('a failed write of one Secret does not keep the other from its cert', async () => {
  ask({ [CLIENT]: 'db-client' });
  const create = (_resource: unknown, secret: { metadata?: { name?: string } }) =>
    secret.metadata?.name === 'db-tls'
      ? Promise.reject(new Error('the connection broke'))
      : (world.secrets.create(secret) as Promise<never>);
  await expect(world.run('db', { client: { create } })).rejects.toThrow('the connection broke');
  expect(world.leaf('db-client').keyUsage).toEqual([FOR_CLIENTS]);
});

test('a Secret for which the serving cert of an older Service asks is not given away', async () => {
  const { metadata } = serviceNamed('elder');
  world.add({ metadata: { ...metadata, creationTimestamp: '2026-01-01T00:00:00Z' } });
  await world.run('elder');
  askOnly({ [CLIENT]: 'db-tls' });
  await world.run('db');
  expect(world.events.reasons()).toEqual(['Issued', 'SecretTaken']);
  expect(world.leaf('db-tls').subjectAltName).toContain('elder');
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
  const spoiled = { data: { 'ca.crt': '' } };
  for (let revert = 0; revert < 30; revert++) {
    patch('db-client', spoiled);
    await world.run('db');
  }
  expect(world.events.reasons()).toContain('SecretContended');
  patch('db-tls', spoiled);
  await world.run('db');
  expect(world.secret('db-tls')?.data?.['ca.crt']).not.toBe('');
  expect(world.secret('db-client')?.data?.['ca.crt']).toBe('');
});

/** Which Service gets a Secret, and what happens to orphans: L3 to L6 and M2. */
import { X509Certificate } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';

import type { Authority } from '../../pki/authority/authority.ts';
import { after, DAY, MINUTE } from '../../pki/durations.ts';
import { firstAuthority } from '../../../test/support/pki/fixtures.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import type { Service } from '../../pki/serving-certs/request.ts';
import {
  createWorld,
  serviceNamed,
  type ServingCertsWorld,
} from '../../../test/support/runtime/serving-certs.ts';
import { WriteRefused } from '../write-refused.ts';

const start = new Date('2026-11-21T12:00:00Z');
let authority: Authority;
let world: ServingCertsWorld;

beforeAll(async () => {
  authority = await firstAuthority(start);
});
beforeEach(() => {
  world = createWorld(authority, start);
});

const born = (service: Service, creationTimestamp: string): Service => ({
  ...service,
  metadata: { ...service.metadata, creationTimestamp },
});
const [OLD, YOUNG] = ['2026-11-01T00:00:00Z', '2026-11-02T00:00:00Z'];
const namesIn = (name: string) => {
  const pem = Buffer.from(world.secret(name)?.data?.['tls.crt'] ?? '', 'base64').toString();
  return new X509Certificate(pem).subjectAltName ?? '';
};
const everybody = async (...names: readonly string[]) => {
  for (const name of names) await world.run(name);
};

describe('L3: two Services that name the same Secret', () => {
  beforeEach(() => {
    world.add(born(serviceNamed('web'), YOUNG));
    world.add(born(serviceNamed('db'), OLD));
  });

  test('the older Service gets it, in any order of reconciles, and the other one gets an Event', async () => {
    await everybody('web', 'db', 'web', 'db', 'web');
    expect(namesIn('db-tls')).toContain('db.prod.svc');
    expect(world.secrets.writes()).toBe(1);
    expect(world.events.all.map(({ reason, regarding }) => [reason, regarding.name])).toEqual([
      ['SecretTaken', 'web'],
      ['Issued', 'db'],
    ]);
  });

  test('the smaller uid decides between two of the same second, and the owner never alternates', async () => {
    world.add(born(serviceNamed('web'), OLD));
    await everybody('web', 'db', 'web', 'db');
    expect(namesIn('db-tls')).toContain('db.prod.svc'); // uid-of-db < uid-of-web
    expect(world.secrets.writes()).toBe(1);
  });

  test('the younger one takes over when the older one is deleted', async () => {
    await everybody('db', 'web');
    world.services.delete('prod/db');
    await everybody('db', 'web', 'web');
    expect(namesIn('db-tls')).toContain('web.prod.svc');
    expect(world.secret('db-tls')?.metadata?.ownerReferences).toMatchObject([
      { name: 'web', controller: true },
    ]);
    expect(world.secrets.writes()).toBe(2);
  });

  test('the younger one takes over when the older one names another Secret', async () => {
    await everybody('db', 'web');
    world.add(born(serviceNamed('db', { 'gatehouse.dev/serving-cert-secret-name': 'other' }), OLD));
    await everybody('db', 'web');
    expect(namesIn('db-tls')).toContain('web.prod.svc');
    expect(namesIn('other')).toContain('db.prod.svc');
  });

  test('a store without the older one takes nothing from it: the API server decides', async () => {
    await everybody('db');
    const claimants = () => [world.services.get('prod/web')].flatMap((one) => one ?? []);
    await world.run('web', { stores: { claimants } });
    expect(namesIn('db-tls')).toContain('db.prod.svc');
    expect(world.events.reasons()).toEqual(['Issued', 'SecretTaken']);
  });

  test('an invalid request of the younger one does not stop the renewal for the older one', async () => {
    await everybody('db');
    world.add(born(serviceNamed('web', { 'gatehouse.dev/serving-cert-duration': 'soon' }), YOUNG));
    await world.run('web');
    expect(world.events.reasons()).toEqual(['Issued', 'InvalidRequest']);
    expect(world.inventory.stoppedByReason()).toEqual(new Map());
  });

  test('the older one keeps it while its request is temporarily invalid', async () => {
    await everybody('db');
    world.add(born(serviceNamed('db', { 'gatehouse.dev/serving-cert-duration': 'soon' }), OLD));
    await everybody('db', 'web');
    expect(namesIn('db-tls')).toContain('db.prod.svc');
    expect(world.inventory.stoppedByReason()).toEqual(new Map([['InvalidRequest', 1]]));
  });
});

const foreign = (annotations: Record<string, string> = {}, more: Partial<Secret> = {}): Secret => ({
  metadata: { namespace: 'prod', name: 'db-tls', annotations },
  type: 'kubernetes.io/tls',
  data: { 'tls.crt': 'dGhlaXJz', other: 'dGhlaXJz' },
  ...more,
});

describe('L3: a foreign Secret', () => {
  test('is adopted only with an annotation on the Secret, and keeps its data', async () => {
    world.add(serviceNamed('db'));
    world.secrets.add(foreign());
    await world.run('db');
    expect(world.secret('db-tls')?.data).toEqual(foreign().data);
    world.secrets.edit('prod/db-tls', () => foreign({ 'gatehouse.dev/serving-cert-adopt': 'db' }));
    await world.run('db');
    expect(namesIn('db-tls')).toContain('db.prod.svc');
    expect(world.secret('db-tls')?.data?.other).toBe('dGhlaXJz');
    await world.run('db');
    expect(world.secrets.writes()).toBe(1);
  });
});

describe('L5: an unwritable Secret', () => {
  const mark = { 'gatehouse.dev/serving-cert-service': 'db' };
  const replace = { 'gatehouse.dev/serving-cert-replace-secret': 'true' };

  test.each([
    ['of a wrong type', { type: 'Opaque' }],
    ['that is immutable', { immutable: true }],
  ])('%s is recreated if Gatehouse owns it and the Service allows that', async (_what, change) => {
    world.add(serviceNamed('db', replace));
    world.secrets.add(foreign(mark, change));
    await world.run('db');
    expect(world.calls.deletes).toBe(1);
    expect(namesIn('db-tls')).toContain('db.prod.svc');
    expect(world.secret('db-tls')).toMatchObject({ type: 'kubernetes.io/tls' });
  });

  test('with a finalizer is deleted once, and an Event says what it waits for until it is gone', async () => {
    world.add(serviceNamed('db', replace));
    world.secrets.add(foreign(mark, { type: 'Opaque' }));
    world.secrets.edit('prod/db-tls', (secret) => ({
      ...secret,
      metadata: { ...secret.metadata, finalizers: ['example.com/audit'] },
    }));
    let deletes = 0;
    const run = () => world.run('db', { client: { delete: markAsDeleted } });
    const markAsDeleted = () => {
      if (++deletes > 3) throw new Error('deleted again and again');
      world.secrets.edit('prod/db-tls', (secret) => ({
        ...secret,
        metadata: {
          ...secret.metadata,
          deletionTimestamp: start.toISOString(),
        },
      }));
      return Promise.resolve('deleted' as const);
    };
    expect(await run()).toEqual({ kind: 'requeue', at: after(start, MINUTE) });
    expect(await run()).toEqual({ kind: 'requeue', at: after(start, MINUTE) });
    expect(deletes).toBe(1);
    expect(world.events.all[0]).toMatchObject({
      type: 'Warning',
      reason: 'SecretTerminating',
      message: expect.stringContaining('example.com/audit') as string,
    });
    world.secrets.remove('prod/db-tls');
    await run();
    expect(namesIn('db-tls')).toContain('db.prod.svc');
  });

  test.each([
    ['is not owned by Gatehouse', replace, {}],
    ['is owned by Gatehouse, but the Service does not allow it', {}, mark],
  ])('is never deleted when it %s', async (_when, wish, annotations) => {
    world.add(serviceNamed('db', wish));
    world.secrets.add(foreign(annotations, { type: 'Opaque' }));
    await world.run('db');
    expect(world.calls.deletes).toBe(0);
    expect(world.secret('db-tls')?.type).toBe('Opaque');
  });
});

describe('L4: a Service that is deleted and immediately recreated', () => {
  test('keeps its Secret, whether or not the old one is garbage-collected', async () => {
    world.add(serviceNamed('db'));
    await world.run('db');
    const again = serviceNamed('db');
    world.add({ ...again, metadata: { ...again.metadata, uid: 'second-life' } });
    await world.run('db');
    expect(world.secret('db-tls')?.metadata?.ownerReferences).toMatchObject([{ uid: 'second-life' }]);
    world.secrets.remove('prod/db-tls'); // the garbage collector had decided before the second write
    await world.run('db');
    expect(world.secret('db-tls')?.metadata?.ownerReferences).toMatchObject([{ uid: 'second-life' }]);
    expect(world.events.all.every(({ type }) => type === 'Normal')).toBe(true);
  });
});

describe('L6: a Service that drops its request', () => {
  const silentService = (): Service => ({ metadata: { ...serviceNamed('db').metadata, annotations: {} } });
  beforeEach(async () => {
    world.add(serviceNamed('db'));
    await world.run('db');
  });

  test('keeps its Secret without renewal: one Event on each of them, and a count', async () => {
    world.add(silentService());
    await world.run('db');
    await world.run('db');
    expect(world.secret('db-tls')).toBeDefined();
    expect(world.events.all.slice(1)).toMatchObject([
      { type: 'Warning', reason: 'RenewalStopped', regarding: { kind: 'Service', name: 'db' } },
      { type: 'Warning', reason: 'RenewalStopped', regarding: { kind: 'Secret', name: 'db-tls' } },
    ]);
    expect(world.events.all).toHaveLength(3);
    expect(world.inventory.stoppedByReason()).toEqual(new Map([['NotRequested', 1]]));
    world.add(serviceNamed('db'));
    await world.run('db');
    expect(world.inventory.stoppedByReason()).toEqual(new Map());
  });

  test('loses its Secret if the operator configured that', async () => {
    world.add(silentService());
    await world.run('db', { onRemoval: 'delete' });
    expect(world.secret('db-tls')).toBeUndefined();
    expect(world.events.reasons()).toEqual(['Issued', 'SecretDeleted']);
  });

  test('loses its Secret with one delete, although a finalizer keeps it for some time', async () => {
    world.add(silentService());
    let deletes = 0;
    const keeping = () => {
      deletes++;
      world.secrets.edit('prod/db-tls', (secret) => ({
        ...secret,
        metadata: { ...secret.metadata, deletionTimestamp: start.toISOString() },
      }));
      return Promise.resolve('deleted' as const);
    };
    for (let run = 0; run < 3; run++)
      await world.run('db', { onRemoval: 'delete', client: { delete: keeping } });
    expect(deletes).toBe(1);
    expect(world.events.reasons()).toEqual(['Issued', 'SecretDeleted']);
  });

  test('keeps a Secret that may not be deleted, and gets the one it names now', async () => {
    world.add(serviceNamed('db', { 'gatehouse.dev/serving-cert-secret-name': 'new-tls' }));
    await world.run('db', {
      onRemoval: 'delete',
      client: { delete: () => Promise.reject(new WriteRefused('403 Forbidden')) },
    });
    expect(world.secret('db-tls')).toBeDefined();
    expect(namesIn('new-tls')).toContain('DNS:db.prod.svc');
    expect(world.events.reasons()).toEqual(['Issued', 'RenewalStopped', 'RenewalStopped', 'Issued']);
  });

  test('loses nothing if only a stale store says so', async () => {
    await world.run('db', {
      onRemoval: 'delete',
      stores: { service: () => silentService() },
    });
    expect(world.secret('db-tls')).toBeDefined();
    expect(world.calls.deletes).toBe(0);
  });

  test('leaves only the data of other clients in its Secret', async () => {
    world.secrets.edit('prod/db-tls', (secret) => ({
      ...secret,
      data: { ...secret.data, password: 'eA==' },
    }));
    world.add(silentService());
    await world.run('db', { onRemoval: 'delete' });
    await world.run('db', { onRemoval: 'delete' });
    // the API server requires both keys in a Secret of this type
    expect(world.secret('db-tls')?.data).toEqual({ password: 'eA==', 'tls.crt': '', 'tls.key': '' });
    expect(world.calls.deletes).toBe(0);
    expect(world.secrets.writes()).toBe(2);
    expect(world.events.reasons()).toEqual(['Issued', 'CertificateRemoved']);
  });

  test.each(['retain', 'delete'] as const)(
    'for another Secret: the policy %ss the old one',
    async (onRemoval) => {
      world.add(serviceNamed('db', { 'gatehouse.dev/serving-cert-secret-name': 'renamed' }));
      await world.run('db', { onRemoval });
      expect(namesIn('renamed')).toContain('db.prod.svc');
      expect(world.secret('db-tls') === undefined).toBe(onRemoval === 'delete');
    },
  );

  test('leaves the Secret to the garbage collector if it is deleted', async () => {
    world.services.delete('prod/db');
    await world.run('db', { onRemoval: 'delete' });
    expect(world.calls.deletes).toBe(0);
    expect(world.inventory.stoppedByReason()).toEqual(new Map([['ServiceGone', 1]]));
  });
});

describe('a Secret with data of other clients', () => {
  const addPassword = () => {
    world.secrets.edit('prod/db-tls', (secret) => ({
      ...secret,
      data: { ...secret.data, password: 'eA==' },
    }));
  };
  const owners = () => world.secret('db-tls')?.metadata?.ownerReferences;

  test('has no owner reference, so that the garbage collector does not delete the data with the Service', async () => {
    world.add(serviceNamed('db'));
    world.secrets.add(foreign({ 'gatehouse.dev/serving-cert-adopt': 'db' }));
    await world.run('db');
    expect(namesIn('db-tls')).toContain('db.prod.svc');
    expect(owners()).toEqual([]);
    await world.run('db');
    expect(world.secrets.writes()).toBe(1);
  });

  test('loses its owner reference when the data appears, and gets it back when the data is gone', async () => {
    world.add(serviceNamed('db'));
    await world.run('db');
    expect(owners()).toHaveLength(1);
    addPassword();
    await world.run('db');
    expect(owners()).toEqual([]);
    world.secrets.edit('prod/db-tls', (secret) => {
      const ours = Object.entries(secret.data ?? {}).filter(([key]) => key !== 'password');
      return { ...secret, data: Object.fromEntries(ours) };
    });
    await world.run('db');
    expect(owners()).toHaveLength(1);
    expect(world.calls.keys).toBe(1);
  });

  test('loses only the certificate when the Service is deleted, and gets a new one when the Service is back', async () => {
    world.add(serviceNamed('db'));
    await world.run('db');
    addPassword();
    await world.run('db');
    world.services.delete('prod/db');
    await world.run('db');
    await world.run('db');
    expect(world.secret('db-tls')?.data).toEqual({ password: 'eA==', 'tls.crt': '', 'tls.key': '' });
    expect(world.secrets.writes()).toBe(3);
    world.add(serviceNamed('db'));
    await world.run('db');
    expect(namesIn('db-tls')).toContain('db.prod.svc');
    expect(world.secret('db-tls')?.data?.password).toBe('eA==');
  });

  test('loses the certificate later if the API server refuses the write at first', async () => {
    world.add(serviceNamed('db'));
    await world.run('db');
    addPassword();
    await world.run('db');
    world.services.delete('prod/db');
    const refused = { replace: () => Promise.reject(new WriteRefused('a policy forbids it')) };
    const result = await world.run('db', { client: refused });
    expect(result).toEqual({ kind: 'requeue', at: after(start, MINUTE) });
    expect(await world.run('db')).toEqual({ kind: 'gone' });
    expect(world.secret('db-tls')?.data).toMatchObject({ 'tls.key': '' });
  });

  test('keeps the certificate if only a stale store says that the Service is gone', async () => {
    world.add(serviceNamed('db'));
    await world.run('db');
    addPassword();
    await world.run('db');
    const before = world.secret('db-tls');
    await world.run('db', { stores: { service: () => undefined, claimants: () => [] } });
    expect(world.secret('db-tls')).toEqual(before);
  });
});

test('M2: in a cluster with another authority, a restored leaf is reissued and bound to its Service', async () => {
  world.add(serviceNamed('db'));
  await world.run('db');
  const there = createWorld(await firstAuthority(start), after(start, DAY));
  const restored = serviceNamed('db');
  there.add({ ...restored, metadata: { ...restored.metadata, uid: 'restored' } });
  const { ownerReferences, ...metadata } = world.secret('db-tls')?.metadata ?? {};
  expect(ownerReferences).toHaveLength(1);
  there.secrets.add({ ...world.secret('db-tls'), metadata });
  await there.run('db');
  expect(there.observed).toEqual(['issued SignerChanged']);
  expect(there.secret('db-tls')?.metadata).toMatchObject({
    annotations: { 'gatehouse.dev/serving-cert-service-uid': 'restored' },
    ownerReferences: [{ uid: 'restored' }],
  });
});

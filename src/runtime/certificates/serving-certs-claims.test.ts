/** Which Service gets a Secret, and what happens to orphans: L3 to L6 and M2. */
import { isDeepStrictEqual } from 'node:util';
import { beforeEach, describe, expect, test } from 'vitest';
import { after, DAY, MINUTE } from '../../pki/durations.ts';
import { firstAuthority } from '../../../test/support/pki/fixtures.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { ApiError, containing, NEVER } from '../../../test/support/runtime/fixtures.ts';
import { createWorld, serviceNamed } from '../../../test/support/runtime/serving-certs.ts';
import { WriteRefused } from '../write-refused.ts';

const start = new Date('2026-11-21T12:00:00Z');
const SECRET = 'prod/db-tls';
const MARK = 'gatehouse.dev/serving-cert-service';
const SECRET_NAME = 'gatehouse.dev/serving-cert-secret-name';
const inAMinute = { kind: 'requeue', at: after(start, MINUTE) };
const authority = await firstAuthority(start);
let world: ReturnType<typeof createWorld>;

beforeEach(() => void (world = createWorld(authority, start)));

const add = (name: string, annotations: Record<string, string> = {}, metadata: object = {}) => {
  const service = serviceNamed(name, annotations);
  world.add({ ...service, metadata: { ...service.metadata, ...metadata } });
};
const addWithoutRequest = () => add('db', {}, { annotations: {} });
const names = (secret?: string) => world.leaf(secret).subjectAltName ?? '';
const owners = () => world.secret()?.metadata?.ownerReferences;
const run = async (...services: readonly string[]) => {
  for (const name of services) await world.run(name);
};
const patch = (change: object) => world.secrets.patch(SECRET, change);
/** Counts the deletions of a Secret that a finalizer keeps. */
const deletedUnderFinalizer = () => {
  let deletes = 0;
  const mark = () => {
    deletes++;
    patch({ metadata: { deletionTimestamp: start.toISOString() } });
    return Promise.resolve('deleted' as const);
  };
  return { client: { delete: mark }, count: () => deletes };
};

describe('L3: two Services that name the same Secret', () => {
  const [old, young] = ['01', '02'].map((day) => ({ creationTimestamp: `2026-11-${day}T00:00:00Z` }));
  beforeEach(() => {
    add('web', {}, young);
    add('db', {}, old);
  });

  test('the younger one takes over when the older one names another Secret', async () => {
    await run('db', 'web');
    add('db', { [SECRET_NAME]: 'other' }, old);
    await run('db', 'web', 'web');
    expect(names()).toContain('web.prod.svc');
    expect(owners()).toMatchObject([{ name: 'web', controller: true }]);
    expect(world.secrets.writes()).toBe(3);
    expect(names('other')).toContain('db.prod.svc');
  });

  test('a store without the older one takes nothing from it: the API server decides', async () => {
    await run('db');
    const claimants = () => [world.services.read('prod/web')].flatMap((one) => one ?? []);
    await world.run('web', { stores: { claimants } });
    expect(names()).toContain('db.prod.svc');
    expect(world.events.reasons()).toEqual(['Issued', 'SecretTaken']);
  });

  const invalid = { 'gatehouse.dev/serving-cert-duration': 'soon' };

  test('an invalid request of the younger one does not stop the renewal for the older one', async () => {
    await run('db');
    add('web', invalid, young);
    await run('web');
    expect(world.events.reasons()).toEqual(['Issued', 'InvalidRequest']);
    expect(world.inventory.stoppedByReason()).toEqual(new Map());
  });

  test('the older one keeps it while its request is temporarily invalid', async () => {
    await run('db');
    add('db', invalid, old);
    await run('db', 'web');
    expect(names()).toContain('db.prod.svc');
    expect(world.inventory.stoppedByReason()).toEqual(new Map([['InvalidRequest', 1]]));
  });
});

const foreign = (annotations: Record<string, string> = {}, more: Partial<Secret> = {}): Secret => ({
  metadata: { namespace: 'prod', name: 'db-tls', annotations },
  type: 'kubernetes.io/tls',
  data: { 'tls.crt': 'dGhlaXJz', other: 'dGhlaXJz' },
  ...more,
});

test('L3: a foreign Secret is adopted only with an annotation on it, keeps its data, and is never owned', async () => {
  add('db');
  world.secrets.add(foreign());
  await run('db');
  expect(world.secret()?.data).toEqual(foreign().data);
  patch({ metadata: { annotations: { 'gatehouse.dev/serving-cert-adopt': 'db' } } });
  await run('db');
  expect(names()).toContain('db.prod.svc');
  expect(world.secret()?.data?.other).toBe('dGhlaXJz');
  expect(owners()).toBeUndefined(); // the garbage collector would delete the data with the Service
  await run('db');
  expect(world.secrets.writes()).toBe(1);
});

describe('L5: an unwritable Secret', () => {
  const mark = { [MARK]: 'db' };
  const replace = { 'gatehouse.dev/serving-cert-replace-secret': 'true' };

  test.each([
    ['of a wrong type', { type: 'Opaque' }],
    ['that is immutable', { immutable: true }],
  ])('%s is recreated if Gatehouse owns it and the Service allows that', async (_what, change) => {
    add('db', replace);
    world.secrets.add(foreign(mark, change));
    await run('db');
    expect(world.calls.deletes).toBe(1);
    expect(names()).toContain('db.prod.svc');
    expect(world.secret()).toMatchObject({ type: 'kubernetes.io/tls' });
  });

  test('with a finalizer is deleted once, and an Event says what it waits for until it is gone', async () => {
    add('db', replace);
    world.secrets.add(foreign(mark, { type: 'Opaque' }));
    patch({ metadata: { finalizers: ['example.com/audit'] } });
    const { client, count } = deletedUnderFinalizer();
    for (let attempt = 0; attempt < 3; attempt++)
      expect(await world.run('db', { client })).toEqual(inAMinute);
    expect(count()).toBe(1);
    const message = containing('example.com/audit');
    expect(world.events.all[0]).toMatchObject({ type: 'Warning', reason: 'SecretTerminating', message });
    world.secrets.remove(SECRET);
    await world.run('db', { client });
    expect(names()).toContain('db.prod.svc');
  });

  test.each([
    ['is not owned by Gatehouse', replace, {}],
    ['is owned by Gatehouse, but the Service does not allow it', {}, mark],
  ])('is never deleted when it %s', async (_when, wish, annotations) => {
    add('db', wish);
    world.secrets.add(foreign(annotations, { type: 'Opaque' }));
    await run('db');
    expect(world.calls.deletes).toBe(0);
    expect(world.secret()?.type).toBe('Opaque');
  });
});

describe('L6: a Service that drops its request', () => {
  beforeEach(async () => {
    add('db');
    await run('db');
  });

  test('keeps its Secret without renewal: one Event on each of them, and a count', async () => {
    addWithoutRequest();
    await run('db', 'db');
    expect(world.secret()).toBeDefined();
    expect(world.events.all.slice(1)).toMatchObject([
      { type: 'Warning', reason: 'RenewalStopped', regarding: { kind: 'Service', name: 'db' } },
      { type: 'Warning', reason: 'RenewalStopped', regarding: { kind: 'Secret', name: 'db-tls' } },
    ]);
    expect(world.events.all).toHaveLength(3);
    expect(world.inventory.stoppedByReason()).toEqual(new Map([['NotRequested', 1]]));
    add('db');
    await run('db');
    expect(world.inventory.stoppedByReason()).toEqual(new Map());
  });

  test('loses its Secret with one delete if the operator configured that, although a finalizer keeps it', async () => {
    addWithoutRequest();
    const { client, count } = deletedUnderFinalizer();
    for (let attempt = 0; attempt < 3; attempt++) await world.run('db', { onRemoval: 'delete', client });
    expect(count()).toBe(1);
    expect(world.events.reasons()).toEqual(['Issued', 'SecretDeleted']);
  });

  test('for another Secret keeps the old one if deleting it is forbidden, and gets the new one', async () => {
    add('db', { [SECRET_NAME]: 'new-tls' });
    const client = { delete: () => Promise.reject(new WriteRefused('403')) };
    await world.run('db', { onRemoval: 'delete', client });
    expect(world.secret()).toBeDefined();
    expect(names('new-tls')).toContain('DNS:db.prod.svc');
    expect(world.events.reasons()).toEqual(['Issued', 'RenewalStopped', 'RenewalStopped', 'Issued']);
  });

  test('loses nothing if only a stale store lacks the request', async () => {
    const service = { metadata: { ...serviceNamed('db').metadata, annotations: {} } };
    await world.run('db', { onRemoval: 'delete', stores: { service: () => service } });
    expect(world.secret()).toBeDefined();
    expect(world.calls.deletes).toBe(0);
  });

  const vault = { apiVersion: 'example.com/v1', kind: 'Vault', name: 'v', uid: 'u', controller: true };

  test.each<[string, object]>([
    ['marked for another Service', { annotations: { [MARK]: 'web' }, ownerReferences: [] }],
    ['taken over by another controller', { ownerReferences: [vault] }],
  ])('keeps a Secret that is %s, although the store does not show that yet', async (_how, metadata) => {
    const known = world.secret() ?? {};
    addWithoutRequest();
    patch({ metadata });
    const before = world.secret();
    await world.run('db', { onRemoval: 'delete', stores: { secretsOf: () => [known] } });
    expect(world.secret()).toEqual(before);
  });

  test('leaves only the data of other clients in its Secret', async () => {
    patch({ data: { password: 'eA==' } });
    addWithoutRequest();
    for (let attempt = 0; attempt < 2; attempt++) await world.run('db', { onRemoval: 'delete' });
    // the API server requires both keys in a Secret of this type
    expect(world.secret()?.data).toEqual({ password: 'eA==', 'tls.crt': '', 'tls.key': '' });
    expect([world.calls.deletes, world.secrets.writes()]).toEqual([0, 2]);
    expect(world.events.reasons()).toEqual(['Issued', 'CertificateRemoved']);
  });

  test('leaves the Secret to the garbage collector if it is deleted', async () => {
    world.services.remove('prod/db');
    await world.run('db', { onRemoval: 'delete' });
    expect(world.calls.deletes).toBe(0);
    expect(world.inventory.stoppedByReason()).toEqual(new Map([['ServiceGone', 1]]));
  });
});

describe('F1: a copy with all marks, by a replicator or kubectl', () => {
  const copyAs = (name: string, change: object = {}) => {
    const { metadata, ...secret } = world.secret() ?? {};
    world.secrets.add({ ...secret, metadata: { ...metadata, ...change, name } });
  };

  const copyOfGone = (change: object = {}) => {
    copyAs('copy', change);
    world.secrets.patch('prod/copy', { data: { 'chain.pem': 'eA==' } });
    world.services.remove('prod/db');
  };

  beforeEach(async () => {
    add('db');
    await run('db');
  });

  test.each<[string, () => void]>([
    ['under another name', () => copyAs('copy')],
    ['of a Secret that lacks its owner', () => copyAs('copy', { ownerReferences: [] })],
    ['with more data, whose Service is gone', () => copyOfGone()],
    ['that an earlier version marked', () => copyOfGone({ annotations: { [MARK]: 'db' } })],
  ])('%s is left alone, without an Event or a count', async (_what, arrange) => {
    arrange();
    const before = world.secret('copy');
    const events = world.events.all.length;
    await world.run('db', { onRemoval: 'delete' });
    await world.run('db');
    expect(world.secret('copy')).toEqual(before);
    expect(world.events.all).toHaveLength(events);
    expect(world.inventory.all()).toHaveLength(1);
    world.secrets.remove(SECRET);
    expect(world.inventory.stoppedByReason()).toEqual(new Map());
  });

  test('is not overwritten for another Service that names it', async () => {
    copyAs('copy');
    add('web', { [SECRET_NAME]: 'copy' });
    await run('web');
    expect(names('copy')).toContain('db.prod.svc');
    expect(world.events.reasons()).toEqual(['Issued', 'ForeignSecret']);
  });

  test('is used by its Service if that names it, as after a restore into another namespace', async () => {
    copyAs('copy');
    add('db', { [SECRET_NAME]: 'copy' });
    await run('db');
    expect(world.secret('copy')?.metadata?.annotations).toMatchObject({
      'gatehouse.dev/serving-cert-secret': 'prod/copy',
    });
  });
});

test('A2: the objects alone say why a cert is not renewed: a Service that is created again needs no write', async () => {
  add('db');
  await run('db');
  world.services.remove('prod/db');
  await run('db');
  expect(world.inventory.stoppedByReason()).toEqual(new Map([['ServiceGone', 1]]));
  add('db');
  expect(world.inventory.stoppedByReason()).toEqual(new Map());
  world.authority = await firstAuthority(start);
  const [id = ''] = world.authority.generations.map((one) => one.id);
  expect(world.inventory.secretsWithout(id)).toEqual(['Secret prod/db-tls']);
});

const refusal = `secrets "db-tls" is forbidden: cannot set an ownerRef on a resource you can't delete`;
const replace = (_resource: unknown, secret: Secret) => {
  const before = world.secret()?.metadata?.ownerReferences ?? [];
  return isDeepStrictEqual(secret.metadata?.ownerReferences ?? [], before)
    ? (world.secrets.replace(secret) as Promise<never>)
    : Promise.reject(new ApiError(403, refusal));
};

test.each<[string, object]>([
  ['without an owner', { metadata: { ownerReferences: null } }],
  ['of an earlier Service', { metadata: { ownerReferences: [] } }],
  ['with data of another client, which the owner would take with it', { data: { password: 'eA==' } }],
])(
  'A1: where OwnerReferencesPermissionEnforcement refuses to change owners, a Secret %s gets its new cert, and keeps its owners',
  async (_what, change) => {
    add('db');
    await run('db');
    const reconcile = world.reconciler({ client: { replace } });
    patch(change);
    patch({ data: { 'tls.key': '' } });
    const before = owners() ?? [];
    const next = await reconcile('prod/db', NEVER);
    expect(owners() ?? []).toEqual(before);
    expect(names()).toContain('db.prod.svc');
    expect(world.file('tls.key')).not.toHaveLength(0);
    const [told] = world.events.all.slice(-1);
    expect(told?.reason).toBe('PartRefused');
    expect(told?.message).toContain('is written, except for its metadata.ownerReferences');
    expect(told?.message).toContain('deploy/components/delete-secrets');
    expect(next).toEqual({ kind: 'requeue', at: after(start, 10 * MINUTE) });
    const writes = world.secrets.writes();
    const { reads } = world.calls;
    await reconcile('prod/db', NEVER);
    expect([world.secrets.writes(), world.calls.reads]).toEqual([writes, reads]);
    world.now = after(start, 10 * MINUTE);
    await run('db'); // it is permitted now
    expect(world.events.reasons().filter((reason) => reason === 'SecretContended')).toEqual([]);
    expect(world.secrets.writes()).toBe(writes + 1);
  },
);

describe('a Secret to which another client has added data', () => {
  beforeEach(async () => {
    add('db');
    await run('db');
    expect(owners()).toHaveLength(1);
    patch({ data: { password: 'eA==' } });
    await run('db');
  });

  test('service-ca e2e serving-cert-secret-add-data: unlike in service-ca, keeps the data and its cert, without an owner reference until the data is gone', async () => {
    expect(owners()).toBeUndefined();
    expect(world.secret()?.data).toMatchObject({ password: 'eA==' });
    patch({ data: { password: null } });
    await run('db');
    expect(owners()).toHaveLength(1);
    expect(world.calls.keys).toBe(1);
  });

  test('loses only the certificate when the Service is deleted, and gets a new one when the Service is back', async () => {
    world.services.remove('prod/db');
    await run('db', 'db');
    expect(world.secret()?.data).toEqual({ password: 'eA==', 'tls.crt': '', 'tls.key': '' });
    expect(world.secrets.writes()).toBe(3);
    add('db');
    await run('db');
    expect(names()).toContain('db.prod.svc');
    expect(world.secret()?.data?.password).toBe('eA==');
  });

  test('keeps the certificate if only a stale store says that the Service is gone', async () => {
    const before = world.secret();
    await world.run('db', { stores: { service: () => undefined, claimants: () => [] } });
    expect(world.secret()).toEqual(before);
  });
});

test('M2: in a cluster with another authority, a restored leaf is reissued and bound to its Service', async () => {
  add('db');
  await run('db');
  const there = createWorld(await firstAuthority(start), after(start, DAY));
  const restored = serviceNamed('db');
  there.add({ ...restored, metadata: { ...restored.metadata, uid: 'restored' } });
  const { ownerReferences, ...metadata } = world.secret()?.metadata ?? {};
  expect(ownerReferences).toHaveLength(1);
  there.secrets.add({ ...world.secret(), metadata });
  await there.run('db');
  expect(there.observed).toEqual(['issued SignerChanged']);
  expect(there.secret()?.metadata).toMatchObject({
    annotations: { 'gatehouse.dev/serving-cert-service-uid': 'restored' },
    ownerReferences: [{ uid: 'restored' }],
  });
});

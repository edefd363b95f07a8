/** Changes of the authority, the clock and the request, other clients that revert them, client certs and outputs. */
import { beforeEach, describe, expect, test } from 'vitest';
import { remove } from '../../pki/authority/authority.ts';
import { after, DAY, HOUR, MINUTE, SECOND } from '../../pki/durations.ts';
import { splitCertificates } from '../../pki/x509/pem.ts';
import { servingCertRequest } from '../../pki/serving-certs/request.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { activated, base64, firstAuthority, prepared, rotated } from '../../../test/support/pki/fixtures.ts';
import { NEVER } from '../../../test/support/runtime/fixtures.ts';
import {
  createWorld,
  serviceNamed,
  type Change,
  type ServingCertsWorld,
} from '../../../test/support/runtime/serving-certs.ts';

const start = new Date('2026-11-21T12:00:00Z');
const authority = await firstAuthority(after(start, -60 * DAY));
let world: ServingCertsWorld;

beforeEach(() => {
  world = createWorld(authority, start);
  world.add(serviceNamed('db'));
});

const patch = (name: string, change: object) => world.secrets.patch(`prod/${name}`, change);

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

test('cert-manager TestDynamicSource_FailingSign: rotate root: a rotation makes one new leaf and key: its other steps change only the chain and the bundle', async () => {
  askOutputs('combined-pem');
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
  expect(world.events.reasons()).toEqual(['Issued']); // a rotation must not record ten thousand Events
  expect(content().isCombined).toBe(true);
});

test.each<[string, string, (text: string) => string]>([
  ['no line ends', 'tls.crt', (text) => text.replaceAll('\n', '')],
  ['indentation', 'tls.crt', (text) => text.replaceAll(/^/gm, '  ')],
  ['blank lines', 'tls.crt', (text) => text.replaceAll('\n', '\n\n')],
  ['folded lines', 'ca.crt', (text) => text.replaceAll('\n', ' ')],
  ['a byte order mark', 'ca.crt', (text) => `\uFEFF${text}`],
  ['text before its BEGIN line', 'ca.crt', (text) => `# api: ${text}`],
  ['no line ends', 'tls.key', (text) => text.replaceAll('\n', '')],
])('text with %s in %s is written again, with the same content and one Event', async (_what, key, damage) => {
  await world.run('db');
  const before = content();
  patch('db-tls', { data: { [key]: base64(damage(world.file(key).toString())) } });
  await world.run('db');
  await world.run('db');
  expect(content()).toEqual(before);
  expect(world.secrets.writes()).toBe(2);
  expect(world.events.reasons()).toEqual(['Issued', 'SecretRepaired']);
});

/** The API server changes each Secret that is written. */
const changing = (change: (secret: Secret) => Secret): Change => ({
  client: {
    create: (_resource, secret) => world.secrets.create(change(secret)) as Promise<never>,
    replace: (_resource, secret) => world.secrets.replace(change(secret)) as Promise<never>,
  },
});

const unlabelled = ({ metadata, ...secret }: Secret) => ({
  ...secret,
  metadata: { ...metadata, labels: {} },
});

test.each<[string, (secret: Secret) => Secret]>([
  ['that is written as it is', (secret) => secret],
  ['whose label an admission policy removes', unlabelled],
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

const disagreeing = {
  get serverClock() {
    return { now: () => world.now, skewMs: () => 9 * HOUR };
  },
} satisfies Change;
const holding = { pacer: { take: () => false, forget: () => undefined } } satisfies Change;

test.each([-400, 90])(
  'C1: while the clocks disagree, a working cert is not replaced, although the local clock jumped by %i days',
  async (days) => {
    await world.run('db');
    const before = world.secret();
    world.now = after(start, days * DAY);
    const result = await world.run('db', disagreeing);
    expect(world.secret()).toEqual(before);
    expect(result.kind === 'requeue' && result.at > world.now).toBe(true);
    expect(world.events.reasons()).toEqual(['Issued']); // no Event per Service, because there may be thousands
  },
);

test.each([
  ['C1: disagreeing clocks do not delay', disagreeing],
  ['C3: certs of others do not delay', holding],
])('%s a first cert and the repair of a broken one, because nothing can be lost', async (_what, change) => {
  await world.run('db', change);
  expect(world.observed).toEqual(['issued Missing']);
  patch('db-tls', { data: { 'tls.key': '' } });
  await world.run('db', change);
  patch('db-tls', { data: null });
  await world.run('db', change);
  expect(world.observed).toEqual(['issued Missing', 'issued Unreadable', 'issued Missing']);
});

describe('C3: while other certs are issued,', () => {
  const week = serviceNamed('db', { 'gatehouse.dev/serving-cert-duration': '7d' });

  test.each<[string, () => unknown]>([
    ['a new signer', async () => (world.authority = await rotated(authority, start))],
    ['a new CA bundle', async () => (world.authority = await prepared(authority, start))],
    ['another cluster domain', () => (world.rules = { ...world.rules, clusterDomain: 'corp.example' })],
    ['a shorter duration', () => world.add(week)],
    ['a due renewal', () => (world.now = after(start, 80 * DAY))],
  ])('%s waits, without a request to the API server', async (_what, change) => {
    await world.run('db');
    const before = world.secret();
    await change();
    world.calls.reads = 0;
    expect(await world.run('db', holding)).toEqual({ kind: 'await-change' });
    expect(world.secret()).toEqual(before);
    expect(world.calls.reads).toBe(0);
    await world.run('db');
    // One request creates a cert; a read and a write renew it.
    expect([world.secrets.writes(), world.calls.reads]).toEqual([2, 1]);
  });

  test('the cert of Gatehouse itself goes first', async () => {
    await world.run('db');
    world.authority = await rotated(authority, start);
    const own: Change = {
      ...holding,
      requests: {
        request: (service, purpose) => {
          const request = servingCertRequest(service, world.rules, purpose);
          return request.kind === 'request' ? { ...request, own: true } : request;
        },
      },
    };
    await world.run('db', own);
    expect(world.observed).toEqual(['issued Missing', 'issued SignerChanged']);
  });
});

describe('a contended Secret:', () => {
  beforeEach(async () => {
    await world.run('db');
  });

  /** Another client changes the Secret whenever it is whole, once a second, and the requeues run. */
  async function revert(times: number, how: () => void): Promise<void> {
    for (let n = 0; n < times; n++) {
      how();
      const result = await world.run('db');
      const next = after(world.now, SECOND);
      world.now = result.kind === 'requeue' && result.at < next ? result.at : next;
    }
  }
  const empty = () => patch('db-tls', { data: null });
  let edits = 0;
  const edit = () => {
    const duration = `${edits++ % 2 === 0 ? 36 : 48}h`;
    world.add(serviceNamed('db', { 'gatehouse.dev/serving-cert-duration': duration }));
    empty();
  };

  test.each([
    ['empties it', empty],
    ['edits its Service too, so that each content is new', edit],
  ])(
    'a client that %s 200 times in 200 s causes at most 20 writes, and an Event names the problem',
    async (_what, how) => {
      await revert(200, how);
      expect(world.secrets.writes()).toBeLessThan(20);
      expect(world.contended.count()).toBe(1);
      const contended = world.events.all.filter(({ reason }) => reason === 'SecretContended');
      const told = contended.map(({ type, regarding }) => `${type} ${regarding.kind}`);
      expect(told).toContain('Warning Service');
      expect(contended.length).toBeLessThanOrEqual(2); // on the Service and on the Secret
    },
  );

  test('a Service that is deleted and created again 200 times causes at most 20 writes', async () => {
    for (let n = 0; n < 200; n++) {
      world.services.clear();
      world.secrets.remove('prod/db-tls');
      await world.run('db');
      const { metadata } = serviceNamed('db');
      world.add({ metadata: { ...metadata, uid: `uid ${n}` } });
      await world.run('db');
      world.now = after(world.now, SECOND);
    }
    expect(world.secrets.writes()).toBeLessThan(20);
  });

  test('a Secret that remains whole for some minutes stops being contended', async () => {
    await revert(60, empty);
    for (let n = 0; n < 10 && world.contended.count() > 0; n++) {
      const result = await world.run('db');
      const soon = after(world.now, 10 * MINUTE);
      if (world.contended.count() > 0) expect(result.kind === 'requeue' && result.at <= soon).toBe(true);
      world.now = result.kind === 'requeue' ? result.at : world.now;
    }
    expect(world.contended.count()).toBe(0);
    empty();
    const before = world.secrets.writes();
    await world.run('db');
    expect(world.secrets.writes()).toBe(before + 1);
  });

  test('a new signer is written immediately to a contended Secret', async () => {
    await revert(60, empty);
    world.now = after(world.now, HOUR);
    await world.run('db');
    await revert(30, empty);
    const before = world.secrets.writes();
    world.authority = await rotated(authority, world.now);
    await world.run('db');
    expect(world.secrets.writes()).toBe(before + 1);
  });
});

/** The Secret `db-tls` is for servers. */
const CLIENT = 'gatehouse.dev/client-cert-secret-name';
const SERVING = 'gatehouse.dev/serving-cert-secret-name';
const DURATION = 'gatehouse.dev/client-cert-duration';
const FOR_CLIENTS = '1.3.6.1.5.5.7.3.2';
const FOR_SERVERS = '1.3.6.1.5.5.7.3.1';
const ask = (annotations: Record<string, string>) => world.add(serviceNamed('db', annotations));

test('a Service gets a client cert and a serving cert, each in its own Secret, and a second run changes nothing', async () => {
  ask({ [CLIENT]: 'db-client', [DURATION]: '12h' });
  const result = await world.run('db');
  expect(world.leaf('db-client').keyUsage).toEqual([FOR_CLIENTS]);
  expect(world.leaf('db-tls').keyUsage).toEqual([FOR_SERVERS]);
  expect(world.leaf('db-client').subjectAltName).toContain('DNS:db.prod.svc');
  expect(world.leaf('db-client').validToDate).toEqual(after(start, 12 * HOUR));
  expect(world.secret('db-client')?.metadata?.ownerReferences).toMatchObject([{ uid: 'uid-of-db' }]);
  expect(result.kind === 'requeue' && result.at < after(start, 9 * HOUR)).toBe(true); // the first renewal of both
  await world.run('db');
  expect(world.secrets.writes()).toBe(2);
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
  ask({ [SERVING]: 'db-client', [CLIENT]: 'db-tls' });
  await world.run('db');
  expect(world.leaf('db-client').keyUsage).toEqual([FOR_SERVERS]);
  expect(world.leaf('db-tls').keyUsage).toEqual([FOR_CLIENTS]);
});

test('one invalid request does not stop the other, and each has its own Event, once', async () => {
  ask({ [CLIENT]: 'db-tls' });
  await world.run('db');
  await world.run('db');
  expect(world.leaf('db-tls').keyUsage).toEqual([FOR_SERVERS]);
  expect(world.events.reasons().toSorted()).toEqual(['InvalidRequest', 'Issued']);
  expect(world.inventory.stoppedByReason()).toEqual(new Map()); // the serving Secret is still renewed

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

test('the Secret of a client cert that nothing requests anymore is reported, or deleted', async () => {
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

const OUTPUTS = 'gatehouse.dev/serving-cert-outputs';
const STORES = { 'gatehouse.dev/serving-cert-keystore-password': 'stores' };
const askOutputs = (outputs: string, more = {}) => ask({ [OUTPUTS]: outputs, ...more });
const setPassword = (password: string) => {
  const metadata = { namespace: 'prod', name: 'stores' };
  world.secrets.add({ metadata, data: { password: base64(password) } });
};

test('valid key stores stay while their password cannot be read, and new ones wait for it', async () => {
  setPassword('secret');
  askOutputs('jks', STORES);
  await world.run('db');
  const before = world.secret();
  world.secrets.remove('prod/stores');
  world.now = after(start, HOUR);
  await world.run('db');
  expect(world.secret()).toEqual(before);
  askOutputs('jks,pkcs12', STORES);
  await world.run('db');
  expect(world.secret()?.data).toEqual(before?.data);
  expect(world.secret()?.metadata?.annotations).toMatchObject({ [OUTPUTS]: 'jks' });
  expect(world.events.reasons()).toContain('KeystorePasswordMissing');
  setPassword('secret');
  await world.run('db');
  expect(world.file('keystore.p12').length).toBeGreaterThan(0);
  expect(world.secret()?.data).toMatchObject(before?.data ?? {});
});

test('outputs that nothing requests anymore are removed', async () => {
  askOutputs('pkcs12,combined-pem');
  await world.run('db');
  askOutputs('combined-pem');
  await world.run('db');
  const files = ['ca.crt', 'tls-combined.pem', 'tls.crt', 'tls.key'];
  expect(Object.keys(world.secret()?.data ?? {}).sort()).toEqual(files);
  expect(world.observed).toEqual(['issued Missing']);
});

test.each([
  ['without a password', undefined],
  ['with a password longer than 1 KiB, which would block the leader', 'x'.repeat(1025)],
])('%s there is a cert but no key store, and one Event reports it', async (_what, password) => {
  if (password !== undefined) setPassword(password);
  askOutputs('pkcs12,jks,combined-pem', STORES);
  await world.run('db');
  await world.run('db');
  expect(world.file('tls-combined.pem').length).toBeGreaterThan(0);
  expect([world.file('keystore.p12').length, world.file('keystore.jks').length]).toEqual([0, 0]);
  expect(world.events.reasons()).toEqual(['Issued', 'KeystorePasswordMissing']);
  setPassword('x'.repeat(1024));
  await world.run('db');
  expect(world.file('keystore.p12').length).toBeGreaterThan(0);
  expect(world.file('keystore.jks').length).toBeGreaterThan(0);
});

import { generateKeyPair as generateKeyPairOfNode } from 'node:crypto';
import { promisify } from 'node:util';
import { beforeEach, describe, expect, test, vi } from 'vitest';

import { resolveConfig } from '../../config/config.ts';
import { openKey, signWith } from '../../pki/authority/generation.ts';
import { parseAuthority, toSecretData } from '../../pki/authority/secret.ts';
import { activeGeneration, type Authority, caBundle } from '../../pki/authority/authority.ts';
import { after, DAY, HOUR, MINUTE } from '../../pki/durations.ts';
import { base64, firstAuthority, rotated } from '../../../test/support/pki/fixtures.ts';
import { makeCa } from '../../../test/support/pki/openssl-ca.ts';
import { hasOpenssl } from '../../../test/support/trust-verdicts.ts';
import { generateKeyPair, type KeyPair, randomSerial } from '../../pki/x509/keys.ts';
import { signRoot } from '../../pki/x509/certificate.ts';
import { toPrivateKeyPem } from '../../pki/x509/pem.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { configMaps as CONFIG_MAPS, secrets as SECRETS, services } from '../../kube/well-known.ts';
import { type AuthorityContext, createAuthorityReconciler } from './authority.ts';
import {
  ApiError,
  containing,
  createCluster,
  createEvents,
  NEVER,
  OWN_NAMESPACE,
  silent,
  untilDone,
} from '../../../test/support/runtime/fixtures.ts';
import { RESTORE_WINDOWS } from '../resources.ts';
import type { AuthorityState } from '../../server/metrics/metrics.ts';
import { WriteRefused } from '../write-refused.ts';
import type { ConfigMap } from './ca-bundle.ts';

const start = new Date('2026-11-21T12:00:00Z');
const NAME = 'gatehouse-authority';
const KEY = `${OWN_NAMESPACE}/${NAME}`;

const cluster = createCluster();
const secrets = cluster.objects<Secret>(SECRETS);
const configMaps = cluster.objects<ConfigMap>(CONFIG_MAPS);
let keysMade: number;
let now: Date;

beforeEach(() => {
  cluster.reset();
  keysMade = 0;
  now = start;
});

const pass = (ms: number) => (now = after(now, ms));

const publish = (bundle: string) => {
  const metadata = { namespace: OWN_NAMESPACE, name: 'gatehouse-cabundle' };
  configMaps.add({ metadata, data: { 'ca.crt': bundle } });
};

interface LeaderChange extends Partial<Omit<AuthorityContext, 'client' | 'evidence'>> {
  readonly client?: Partial<AuthorityContext['client']>;
  readonly evidence?: Partial<AuthorityContext['evidence']>;
  /** The Secret with the imported CA. */
  readonly importFrom?: string;
}

/** A leader: its reconcile, and every authority that it distributed. It publishes its bundle immediately. */
function leader({ importFrom, client, evidence, ...change }: LeaderChange = {}) {
  const used: Authority[] = [];
  const reports: AuthorityState[] = [];
  const events = createEvents();
  const defaults = resolveConfig({}, {});
  const config: AuthorityContext['config'] = { ...defaults, ca: { ...defaults.ca, secret: importFrom } };
  const reconcile = createAuthorityReconciler({
    client: { ...cluster.client, ...client },
    config,
    evidence: {
      targetsWithout: () => ({ vetoing: [], delaying: [] }),
      longestLifeMs: () => 90 * DAY,
      clusterIPs: () => [],
      wantsClientCerts: () => false,
      unreadable: () => [],
      ...evidence,
    },
    generateKeyPair: (algorithm) => {
      keysMade++;
      return generateKeyPair(algorithm);
    },
    randomSerial,
    onAuthority: (authority) => {
      used.push(authority);
      publish(caBundle(authority, now));
    },
    metrics: { authority: (state) => state && reports.push(state), authorityRestored: () => undefined },
    record: events.record,
    serverClock: { now: () => now, skewMs: () => 0 },
    log: silent,
    ...change,
  });
  const of = (reason: string) => events.all.filter((event) => event.reason === reason);
  return { reconcile: () => reconcile(NAME, NEVER), config, used, reports, events, of };
}

/** A leader after its first reconcile: there is an authority. */
async function leading(change?: LeaderChange) {
  const one = leader(change);
  await one.reconcile();
  return one;
}

/** A serving cert of a Service of this cluster. */
function addServingCert(name: string): void {
  const annotations = {
    'gatehouse.dev/serving-cert-service': name,
    'gatehouse.dev/serving-cert-service-uid': `uid-of-${name}`,
  };
  const labels = { 'gatehouse.dev/serving-cert': 'true' };
  secrets.add({ metadata: { namespace: 'prod', name: `${name}-tls`, labels, annotations } });
  cluster.objects(services).add({ metadata: { namespace: 'prod', name, uid: `uid-of-${name}` } });
}

const stored = () => parseAuthority(secrets.read(KEY)?.data ?? {});
const active = () => activeGeneration(stored());
const ids = () => stored().generations.map(({ id }) => id);
const states = () => Array.from(stored().generations, ({ state }) => state).join();
const add = (data: NonNullable<Secret['data']>) =>
  secrets.add({ metadata: { namespace: OWN_NAMESPACE, name: NAME }, type: 'Opaque', data });
const annotate = (annotations: Record<string, string>) => secrets.patch(KEY, { metadata: { annotations } });
const rotateNow = (reason = 'audit') => annotate({ 'gatehouse.dev/rotate': reason });

/** Reconciles repeatedly, like the workqueue, and moves the clock forward in between. */
async function until(one: ReturnType<typeof leader>, wanted: () => boolean, stepMs = MINUTE) {
  for (let run = 0; run < 40; run++) {
    const result = await one.reconcile();
    if (wanted()) return;
    const isDue = result.kind === 'requeue' && result.at <= now;
    if (!isDue) pass(stepMs);
  }
  throw new Error(`not reached: ${states()}`);
}
const hasTakenOver = () => states() === 'active,retiring';
const isSteady = (one: ReturnType<typeof leader>) => () => one.reports.at(-1)?.phase === 'steady';

describe('the first authority', () => {
  test('cert-manager TestDynamicAuthority: create: is created once, in a Secret that is excluded from backups', async () => {
    const { reconcile, used, events } = await leading();
    expect(secrets.read(KEY)).toMatchObject({
      type: 'gatehouse.dev/authority',
      metadata: { labels: { 'velero.io/exclude-from-backup': 'true' } },
    });
    await reconcile();
    expect(await reconcile()).toEqual({ kind: 'requeue', at: after(now, HOUR) });
    expect(secrets.writes()).toBe(1);
    expect(used).toHaveLength(1);
    expect(events.reasons()).toEqual(['AuthorityCreated']);
  });

  test('cert-manager TestDynamicAuthorityMulti: one of many concurrent leaders wins, and the others use its authority', async () => {
    const many = Array.from({ length: 20 }, () => leader());
    const outcomes = await Promise.allSettled(many.map(({ reconcile }) => reconcile()));
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    await Promise.all(many.map(({ reconcile }) => untilDone(reconcile, NAME)));
    expect(new Set(many.flatMap(({ used }) => used.map((one) => activeGeneration(one).id))).size).toBe(1);
  });

  test.each([
    ['before', 2],
    ['after', 1],
  ] as const)('exists once after its leader is killed %s the write', async (when, keys) => {
    secrets.interrupt(when);
    const killed = leader();
    await expect(killed.reconcile()).rejects.toThrow('connection broke');
    expect(killed.used).toEqual([]);
    const next = await leading();
    await next.reconcile();
    expect(keysMade).toBe(keys);
    expect(next.used).toHaveLength(1);
  });

  test('is not created after a failed read', async () => {
    const get = () => Promise.reject(new Error('the API server is away'));
    await expect(leading({ client: { get } })).rejects.toThrow('away');
    expect(secrets.writes()).toBe(0);
  });
});

describe('D5: an unusable authority', () => {
  test.each<[string, (data: Record<string, string>) => Record<string, string> | undefined, string]>([
    ['is missing', () => undefined, 'Missing'],
    ['was emptied (service-ca: secret data deleted; OPA TestEmptyIsInvalid)', () => ({}), 'Unreadable'],
    [
      'holds garbage (OPA TestBadCA; Knative TestReconcile: missing CA cert; cert-manager TestDynamicAuthority: corrupt)',
      (data) => ({ ...data, 'generations.json': base64('[{"id":') }),
      'Unreadable',
    ],
  ])('that %s is reported and never replaced, and the bundle stays', async (_how, breakIt, reason) => {
    const authority = await firstAuthority(start);
    publish(caBundle(authority, now));
    const data = breakIt({ ...toSecretData(authority) });
    if (data !== undefined) add(data);
    const { reconcile, used, reports, events } = leader();
    expect(await reconcile()).toEqual({ kind: 'requeue', at: after(now, 30_000) });
    await reconcile();
    expect(secrets.writes()).toBe(0);
    expect(used).toEqual([]);
    expect(events.reasons()).toEqual(['SignerBroken']); // once, not every 30 seconds
    expect(events.all[0]?.message).toContain('Restore the secret from a good copy, or annotate it');
    pass(HOUR);
    await reconcile();
    expect(events.reasons()).toEqual(['SignerBroken', 'SignerBroken']); // Kubernetes has dropped the first one
    expect(reports.at(-1)).toEqual({ phase: 'broken', broken: reason, generations: [] });
  });

  test('is not recreated while serving certs prove that it existed', async () => {
    for (const name of ['a', 'b', 'c']) addServingCert(name);
    const { events } = await leading();
    expect(secrets.writes()).toBe(0);
    expect(events.reasons()).toEqual(['SignerBroken']);
  });

  test.each([
    ['was deleted (service-ca refresh-CA; cert-manager TestDynamicAuthority: delete)', true],
    ['was replaced by an older copy', false],
  ])('is written back with each generation when it %s under a leader that holds it', async (_how, isGone) => {
    const one = await leading();
    const older = secrets.read(KEY) ?? {};
    rotateNow();
    await until(one, hasTakenOver);
    const before = stored();
    if (isGone) secrets.remove(KEY);
    else secrets.add(older);
    await one.reconcile();
    expect(stored()).toEqual(before);
    expect(one.events.reasons()).toContain('SignerRestored');
    expect(keysMade).toBe(2);
  });

  test('M2: an older copy is rejected by a new leader, because the published bundle is newer', async () => {
    const old = await firstAuthority(start);
    publish(caBundle(await rotated(old, start), now));
    add(toSecretData(old));
    const { used, reports } = await leading();
    expect(used).toEqual([]);
    expect(reports.at(-1)).toMatchObject({ broken: 'OlderThanPublished' });
  });

  test('M2: a valid authority restored into a new cluster is adopted', async () => {
    const restored = await rotated(await firstAuthority(start), start);
    add(toSecretData(restored));
    const { used } = await leading();
    expect(used[0]).toEqual(restored);
    expect(keysMade).toBe(0);
  });
});

describe('a rotation', () => {
  test('service-ca e2e forced-ca-rotation: takes each step, reports each, and ends with one generation', async () => {
    const one = await leading();
    const first = active().id;
    rotateNow();
    await until(one, hasTakenOver);
    expect(stored().generations[1]).toMatchObject({ id: first, key: undefined });
    expect(one.events.all.at(-1)?.message).toContain('restart before 2027-02-20T13:00:00.000Z what loads');
    await one.reconcile();
    expect(one.reports.at(-1)?.generations[1]?.retiresAt).toEqual(new Date('2027-02-20T13:00:00Z'));
    await until(one, () => stored().generations.length === 1, 10 * DAY);
    expect(stored().gone).toEqual([first]);
    expect(secrets.read(KEY)?.data).not.toHaveProperty(`${first}.crt`);
    expect(one.events.reasons()).toEqual([
      'AuthorityCreated',
      'RotationStarted',
      'RotationPublished',
      'RotationActivated',
      'RotationRetired',
    ]);
    const writes = secrets.writes();
    await one.reconcile();
    expect(secrets.writes()).toBe(writes);
  });

  test('T10: for a new suffix warns about clients that hold only the root before it', async () => {
    const { config } = leader();
    const constrained = (dnsSuffixes: readonly string[]) => {
      const servingCerts = { ...config.servingCerts, dnsSuffixes };
      return leader({ config: { ...config, ca: { ...config.ca, nameConstraints: true }, servingCerts } });
    };
    await constrained([]).reconcile();
    const { id } = active();
    const one = constrained(['apps.example.com']);
    rotateNow();
    await until(one, hasTakenOver);
    const message = containing(
      `only the root of generation ${id} reject each new certificate with a name outside its name constraints, such as name.apps.example.com`,
    );
    for (const reason of ['RotationStarted', 'RotationActivated'])
      expect(one.of(reason)).toMatchObject([{ type: 'Warning', message }]);
  });

  const targetsWithout = () => ({ vetoing: ['CustomResourceDefinition x'], delaying: ['ConfigMap prod/x'] });

  const OWN = 'ConfigMap gatehouse-system/gatehouse-cabundle';

  test.each<[string, LeaderChange, string]>([
    ['a stale target, and names it', { evidence: { targetsWithout } }, 'CustomResourceDefinition x'],
    [
      'the bundle that Gatehouse publishes, even if the other targets report its root',
      { onAuthority: () => undefined }, // the ConfigMap keeps its first bundle
      OWN,
    ],
    [
      'all targets, and names each once',
      {
        onAuthority: () => undefined,
        evidence: { targetsWithout: () => ({ vetoing: [OWN, 'CRD x'], delaying: [] }) },
      },
      `without its root: ${OWN}, CRD x`,
    ],
  ])('T7: waits for %s', async (_what, change, target) => {
    await leading();
    const one = leader(change);
    rotateNow();
    await expect(until(one, hasTakenOver)).rejects.toThrow('not reached: pending,active');
    const message = containing(target);
    expect(one.events.all.at(-1)).toMatchObject({ reason: 'RotationWaiting', message });
  });

  test('a kind that cannot be listed is reported immediately, and again before Kubernetes forgets the Event', async () => {
    const problem =
      'configmaps is forbidden: User "gatehouse" cannot list resource "configmaps" in API group ""';
    const unreadable = () => [{ kind: 'ConfigMap', canVeto: false, problem }];
    const one = await leading({ evidence: { unreadable } });
    for (let run = 0; run < 3; run++) await one.reconcile();
    const message = containing(`Permit Gatehouse to list configmaps (deploy/base). It says: ${problem}`);
    expect(one.of('TargetsUnreadable')).toMatchObject([{ type: 'Warning', message }]);
    pass(HOUR);
    await one.reconcile();
    expect(one.of('TargetsUnreadable')).toHaveLength(2);
  });

  test('M1: pauses while a restore window is open', async () => {
    const one = await leading();
    const windows = cluster.objects(RESTORE_WINDOWS);
    windows.add({
      metadata: { name: 'x', creationTimestamp: now.toISOString() },
      spec: { expiresAt: after(now, HOUR).toISOString() },
    } as object);
    rotateNow();
    await one.reconcile();
    expect(states()).toBe('active');
    expect(one.reports.at(-1)).toMatchObject({ phase: 'paused' });
    pass(51 * MINUTE);
    await one.reconcile();
    const refused = { message: containing('while the restore window x is open') };
    expect(one.of('RotationRefused')).toMatchObject([refused, refused]);
    windows.remove('x');
    await one.reconcile();
    expect(states()).toBe('pending,active');
  });

  test('an authority that the API server refuses is still distributed, reported with the remedy, and continues once it is fixed', async () => {
    await leading();
    rotateNow();
    const replace = vi.fn(cluster.client.replace);
    const one = leader({ client: { replace: replace as typeof cluster.client.replace } });
    replace.mockRejectedValue(new WriteRefused('403 Forbidden. Permit it.'));
    await expect(one.reconcile()).rejects.toThrow('Permit it');
    expect(one.used).toHaveLength(1); // certs are still renewed
    expect(one.events.reasons()).toEqual([]); // not confirmed: the object may have changed
    pass(5_000);
    await expect(one.reconcile()).rejects.toThrow('Permit it');
    await expect(one.reconcile()).rejects.toThrow('Permit it');
    const message = 'secret gatehouse-authority is not written: 403 Forbidden. Permit it.';
    const regarding = { kind: 'Secret', name: NAME };
    expect(one.events.all).toMatchObject([{ regarding, type: 'Warning', reason: 'WriteRefused', message }]);
    replace.mockImplementation(cluster.client.replace);
    await one.reconcile();
    expect(states()).toBe('pending,active');
  });

  test('the record of trust does not wait for a distrust that waits for the restore windows', async () => {
    const listAll: typeof cluster.client.listAll = (kind, ...more) =>
      kind === RESTORE_WINDOWS
        ? Promise.reject(new ApiError(403, 'restorewindows is forbidden'))
        : cluster.client.listAll(kind, ...more);
    const one = leader({ client: { listAll } });
    await until(one, isSteady(one));
    const before = active();
    annotate({ 'gatehouse.dev/distrust': before.id });
    pass(2 * DAY);
    await one.reconcile();
    const result = await one.reconcile();
    expect(active().id).toBe(before.id);
    expect(active().trustedUntil).toEqual(after(now, 91 * DAY));
    expect(result).toEqual({ kind: 'requeue', at: after(now, MINUTE) });
    expect(one.events.all.at(-1)?.message).toContain('restorewindows is forbidden');
  });

  test('a record of trust that is not extended is reported, and again before Kubernetes forgets the Event', async () => {
    const one = leader();
    await until(one, isSteady(one));
    const lateSince = after(active().trustedUntil ?? start, -90 * DAY);
    pass(2 * DAY);
    const full = () => Promise.reject(new ApiError(500, 'etcdserver: mvcc: database space exceeded'));
    const unable = leader({ client: { replace: full } });
    for (let minutes = 0; minutes < 80; minutes += 10) {
      await expect(unable.reconcile()).rejects.toThrow('database space exceeded');
      pass(10 * MINUTE);
    }
    expect(unable.events.reasons()).toEqual(['TrustNotRecorded', 'TrustNotRecorded']);
    expect(unable.events.all[0]?.message).toContain(`since ${lateSince.toISOString()}`);
  });
});

describe('an imported CA', () => {
  const importFrom = 'corporate-ca';
  const SOURCE = `${OWN_NAMESPACE}/${importFrom}`;
  const put = (certificate: string, key: string) => {
    secrets.remove(SOURCE);
    secrets.add({
      metadata: { namespace: OWN_NAMESPACE, name: importFrom },
      data: { 'tls.crt': base64(certificate), 'tls.key': base64(key) },
    });
  };
  /** Another CA, whose name does not change. Returns the id of its generation. */
  const give = async () => {
    const generation = activeGeneration(await firstAuthority(start));
    put(generation.certificate, generation.key === undefined ? '' : openKey(generation.key));
    return generation.id;
  };
  const rootFor = async ({ publicKey, privateKey }: Omit<KeyPair, 'algorithm'>, days: number) => {
    const term = { serial: randomSerial(), notBefore: start, notAfter: after(start, days * DAY) };
    return (await signRoot('Acme Root', { publicKey, sign: signWith(privateKey) }, term)).certificate;
  };

  test('that is pending is withdrawn by another CA in its Secret, never by a Secret that is unusable for a moment', async () => {
    await give();
    const first = secrets.read(SOURCE);
    const one = await leading({ importFrom });
    const keyPair = await generateKeyPair('ECDSA-P256');
    put(await rootFor(keyPair, 400), keyPair.privateKey);
    await one.reconcile();
    const [next = ''] = ids();
    put('garbage', 'garbage');
    await one.reconcile();
    secrets.remove(SOURCE);
    await one.reconcile();
    expect(states()).toBe('pending,active');
    secrets.add({ metadata: { namespace: OWN_NAMESPACE, name: importFrom }, data: first?.data ?? {} });
    await one.reconcile();
    expect(stored()).toMatchObject({ generations: [{ state: 'active' }], gone: [next] });
    expect(one.events.all.at(-1)).toMatchObject({
      reason: 'RotationAbandoned',
      message: containing(`generation ${next} is removed unused`),
    });
  });

  test('is waited for if it is missing at the start', async () => {
    await expect(leading({ importFrom })).rejects.toThrow(
      'the CA in secret gatehouse-system/corporate-ca cannot be used: the secret does not exist',
    );
    expect(secrets.writes()).toBe(0);
  });

  test('remains in use at any age, and is reported, if its Secret is lost later', async () => {
    await give();
    const one = await leading({ importFrom });
    secrets.remove(SOURCE);
    pass(500 * DAY);
    await one.reconcile();
    await one.reconcile();
    expect(states()).toBe('active');
    expect(one.of('CaRefused')).toHaveLength(1);
    pass(HOUR);
    await one.reconcile();
    expect(one.events.reasons()).toEqual(['AuthorityCreated', 'CaRefused', 'CaRefused']);
  });

  test('is reported if its Secret cannot be read, while the authority continues', async () => {
    await give();
    const before = leader({ importFrom });
    await until(before, isSteady(before));
    const { id, trustedUntil = start } = active();
    pass(2 * DAY);
    const get: typeof cluster.client.get = (kind, ref, ...more) =>
      ref.name === importFrom
        ? Promise.reject(new ApiError(403, 'secrets "corporate-ca" is forbidden'))
        : cluster.client.get(kind, ref, ...more);
    const one = leader({ importFrom, client: { get } });
    for (let runs = 0; runs < 3; runs++) await expect(one.reconcile()).rejects.toThrow('the imported CA');
    expect(active()).toMatchObject({ id, trustedUntil: after(trustedUntil, 2 * DAY) });
    expect(one.used.at(-1)).toEqual(stored());
    expect(one.events.reasons()).toEqual(['CaUnreadable']);
    pass(HOUR);
    await expect(one.reconcile()).rejects.toThrow('the imported CA');
    expect(one.events.reasons()).toEqual(['CaUnreadable', 'CaUnreadable']);
    expect(one.events.all.at(-1)?.message).toContain('is forbidden');
  });

  test.skipIf(!hasOpenssl)('without clientAuth is reported as soon as a Service asks for it', async () => {
    const { cert, key } = makeCa({ more: ['extendedKeyUsage=serverAuth'] });
    put(cert, key);
    now = after(new Date(), 30 * MINUTE); // a CA from openssl is valid from the current second on
    let wantsClientCerts = false;
    const one = leader({ importFrom, evidence: { wantsClientCerts: () => wantsClientCerts } });
    const expectAfter = async (runs: number, ...reasons: readonly string[]) => {
      for (let run = 0; run < runs; run++) await one.reconcile();
      expect(one.events.reasons()).toEqual(['AuthorityCreated', ...reasons]);
    };
    await expectAfter(3);
    wantsClientCerts = true;
    await expectAfter(3, 'CaForServersOnly');
    expect(one.events.all.at(-1)).toMatchObject({ type: 'Warning' });
    const other = makeCa({ more: ['extendedKeyUsage=serverAuth,clientAuth'] });
    put(other.cert, other.key);
    await expectAfter(1, 'CaForServersOnly', 'RotationStarted');
  });

  test('T11: that clients would reject never replaces one that they accept', async () => {
    const id = await give();
    const one = await leading({ importFrom });
    const weak = await promisify(generateKeyPairOfNode)('rsa', { modulusLength: 1024 });
    const privateKey = toPrivateKeyPem(weak.privateKey);
    put(await rootFor({ ...weak, privateKey }, 1), privateKey);
    await one.reconcile();
    expect(ids()).toEqual([id]);
    expect(one.events.all.at(-1)).toMatchObject({
      type: 'Warning',
      reason: 'CaRefused',
      message: containing('tls.crt: its key (rsa 1024) is of a type that some clients reject'),
    });
  });
});

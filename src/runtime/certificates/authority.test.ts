import { generateKeyPair as generateKeyPairOfNode } from 'node:crypto';
import { promisify } from 'node:util';
import { beforeEach, describe, expect, test } from 'vitest';

import { openKey, signWith } from '../../pki/authority/sealed-key.ts';
import { parseAuthority, toSecretData } from '../../pki/authority/secret.ts';
import { activeGeneration, type Authority } from '../../pki/authority/authority.ts';
import { caBundle } from '../../pki/authority/bundle.ts';
import { base64, firstAuthority, rotated } from '../../../test/support/pki/fixtures.ts';
import { makeCa } from '../../../test/support/pki/openssl-ca.ts';
import { hasOpenssl } from '../../../test/support/trust-verdicts.ts';
import { generateKeyPair, randomSerial, type KeyPair } from '../../pki/x509/keys.ts';
import { signRoot } from '../../pki/x509/certificate.ts';
import { toPrivateKeyPem } from '../../pki/x509/pem.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { configMaps as CONFIG_MAPS, secrets as SECRETS, services } from '../../kube/well-known.ts';
import { createAuthorityReconciler, type AuthorityContext } from './authority.ts';
import {
  ApiError,
  createEvents,
  createCluster,
  NEVER,
  OWN_NAMESPACE,
  silent,
  untilDone,
  type Cluster,
  type Objects,
} from '../../../test/support/runtime/fixtures.ts';
import { RESTORE_WINDOWS } from '../resources.ts';
import type { AuthorityState } from '../../server/metrics/metrics.ts';
import type { ReconcileResult } from '../controller.ts';
import { WriteRefused } from '../write-refused.ts';
import type { ConfigMap } from './ca-bundle.ts';

const start = new Date('2026-11-21T12:00:00Z');
const NAME = 'gatehouse-authority';
const KEY = `${OWN_NAMESPACE}/${NAME}`;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

let secrets: Objects<Secret>;
let cluster: Cluster;
let configMaps: Objects<ConfigMap>;
let keysMade: number;
let now: Date;

beforeEach(() => {
  cluster = createCluster();
  secrets = cluster.objects(SECRETS);
  configMaps = cluster.objects(CONFIG_MAPS);
  keysMade = 0;
  now = start;
});

const publish = (bundle: string) => {
  configMaps.add({
    metadata: { namespace: OWN_NAMESPACE, name: 'gatehouse-cabundle' },
    data: { 'ca.crt': bundle },
  });
};

const EVIDENCE: AuthorityContext['evidence'] = {
  targetsWithout: () => ({ vetoing: [], delaying: [] }),
  longestLifeMs: () => 90 * DAY,
  clusterIPs: () => [],
  wantsClientCerts: () => false,
  unreadable: () => [],
};

interface LeaderChange extends Partial<AuthorityContext> {
  /** The Secret with the imported CA. */
  readonly importFrom?: string;
}

/** A leader: its reconcile, and every authority that it distributed. It publishes its bundle at once. */
function leader({ importFrom, ...change }: LeaderChange = {}) {
  const used: Authority[] = [];
  const reports: AuthorityState[] = [];
  const events = createEvents();
  const config: AuthorityContext['config'] = {
    ...{ namespace: OWN_NAMESPACE, namespaces: undefined, without: [] },
    ca: {
      secret: importFrom,
      nameConstraints: false,
      lifetimeMs: 730 * 24 * HOUR,
    },
    caPropagationWaitMs: 10 * MINUTE,
    clusterDomain: undefined,
    servingCerts: {
      dnsSuffixes: [],
      namespaceSuffixes: new Map(),
      shortNames: false,
      clusterIPs: false,
      renewAfter: 66,
      maxLifetimeMs: 90 * DAY,
      onRemoval: 'retain',
    },
  };
  const reconcile = createAuthorityReconciler({
    client: cluster.client,
    config,
    evidence: EVIDENCE,
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
  return { reconcile: () => reconcile(NAME, NEVER), config, used, reports, events };
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

const openWindow = (name: string) => ({
  metadata: { name, creationTimestamp: now.toISOString() },
  spec: { expiresAt: new Date(now.getTime() + HOUR).toISOString() },
});

const stored = () => parseAuthority(secrets.read(KEY)?.data ?? {});
const statesOf = ({ generations }: Authority) => generations.map(({ state }) => state);
const add = (
  data: Readonly<Record<string, string>> | undefined,
  annotations: Record<string, string> = {},
) => {
  const metadata = { namespace: OWN_NAMESPACE, name: NAME, annotations };
  secrets.add({ metadata, type: 'Opaque', ...(data === undefined ? {} : { data }) });
};
const annotate = (annotations: Record<string, string>) => {
  secrets.edit(KEY, (secret) => ({
    ...secret,
    metadata: { ...secret.metadata, annotations: { ...secret.metadata?.annotations, ...annotations } },
  }));
};

/** Reconciles repeatedly, like the workqueue, and moves the clock forward in between. */
async function until(
  one: { readonly reconcile: () => Promise<ReconcileResult> },
  wanted: () => boolean,
  stepMs = MINUTE,
) {
  for (let pass = 0; pass < 40; pass++) {
    const result = await one.reconcile();
    if (wanted()) return;
    const isDue = result.kind === 'requeue' && result.at <= now;
    if (!isDue) now = new Date(now.getTime() + stepMs);
  }
  throw new Error(`not reached: ${statesOf(stored()).join()}`);
}

describe('the first authority', () => {
  test('cert-manager TestDynamicAuthority: create: is created in a Secret that is excluded from backups', async () => {
    const { reconcile, used, events } = leader();
    await reconcile();
    expect(secrets.read(KEY)).toMatchObject({
      type: 'gatehouse.dev/authority',
      metadata: { labels: { 'velero.io/exclude-from-backup': 'true' } },
    });
    expect(used).toHaveLength(1);
    expect(events.reasons()).toEqual(['AuthorityCreated']);
  });

  test('is created once: a second run writes nothing and distributes nothing new', async () => {
    const { reconcile, used } = leader();
    await reconcile();
    await reconcile();
    expect(await reconcile()).toEqual({ kind: 'requeue', at: new Date(now.getTime() + HOUR) });
    expect(secrets.writes()).toBe(1);
    expect(used).toHaveLength(1);
  });

  test('is written into a Secret that already exists without data', async () => {
    add({});
    await leader().reconcile();
    expect(secrets.read(KEY)?.type).toBe('Opaque');
    expect(statesOf(stored())).toEqual(['active']);
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
    const next = leader();
    await next.reconcile();
    await next.reconcile();
    expect(keysMade).toBe(keys);
    expect(next.used).toHaveLength(1);
  });

  test('is not created after a failed read', async () => {
    const failing = leader({
      client: { ...cluster.client, get: () => Promise.reject(new Error('the API server is away')) },
    });
    await expect(failing.reconcile()).rejects.toThrow('away');
    expect(secrets.writes()).toBe(0);
  });
});

describe('D5: an unusable authority', () => {
  test.each<[string, (data: Record<string, string>) => Record<string, string> | undefined, string]>([
    ['is missing', () => undefined, 'Missing'],
    ['was emptied (service-ca: secret data deleted; OPA TestEmptyIsInvalid)', () => ({}), 'Unreadable'],
    [
      'has lost a key (OPA TestBadCA; Knative TestReconcile: missing CA cert)',
      (data) => Object.fromEntries(Object.entries(data).filter(([name]) => !name.endsWith('.key'))),
      'Unreadable',
    ],
    ['holds garbage', (data) => ({ ...data, 'generations.json': base64('[{"id":') }), 'Unreadable'],
  ])('that %s is reported and never replaced, and the bundle stays', async (_how, breakIt, reason) => {
    const authority = await firstAuthority(start);
    publish(caBundle(authority, now));
    const data = breakIt({ ...toSecretData(authority) });
    if (data !== undefined) add(data);
    const { reconcile, used, reports, events } = leader();
    expect(await reconcile()).toEqual({ kind: 'requeue', at: new Date(now.getTime() + 30_000) });
    await reconcile();
    expect(secrets.writes()).toBe(0);
    expect(used).toEqual([]);
    expect(events.reasons()).toEqual(['SignerBroken']); // once, not every 30 seconds
    expect(events.all[0]?.message).toContain('Restore the secret from a good copy, or annotate it');
    now = new Date(start.getTime() + HOUR);
    await reconcile();
    expect(events.reasons()).toEqual(['SignerBroken', 'SignerBroken']); // Kubernetes has dropped the first one
    expect(reports.at(-1)).toEqual({ phase: 'broken', broken: reason, generations: [] });
  });

  test('is not recreated while serving certs prove that it existed', async () => {
    for (const name of ['a', 'b', 'c']) addServingCert(name);
    const { reconcile, events } = leader();
    await reconcile();
    expect(secrets.writes()).toBe(0);
    expect(events.reasons()).toEqual(['SignerBroken']);
  });

  test.each<[string, () => void]>([
    [
      'deleted (service-ca refresh-CA; cert-manager TestDynamicAuthority: delete)',
      () => {
        secrets.remove(KEY);
      },
    ],
    [
      'corrupted (cert-manager TestDynamicAuthority: corrupt)',
      () => {
        secrets.edit(KEY, (secret) => ({ ...secret, data: { 'generations.json': base64('x') } }));
      },
    ],
  ])('is written back when it was %s under a leader that holds it', async (_how, spoil) => {
    const one = leader();
    await one.reconcile();
    const before = stored();
    spoil();
    await one.reconcile();
    expect(stored()).toEqual(before);
    expect(one.events.reasons()).toContain('SignerRestored');
    expect(keysMade).toBe(1);
  });

  test('is written back when an older copy replaced it: no generation is lost', async () => {
    const one = leader();
    await one.reconcile();
    const old = secrets.read(KEY)?.data ?? {};
    annotate({ 'gatehouse.dev/rotate': 'audit' });
    await until(one, () => statesOf(stored())[0] === 'active' && stored().generations.length === 2);
    const newer = stored();
    secrets.edit(KEY, (secret) => ({ ...secret, data: old }));
    await one.reconcile();
    expect(stored()).toEqual(newer);
  });

  test('M2: an older copy is rejected by a new leader, because the published bundle is newer', async () => {
    const old = await firstAuthority(start);
    const newer = await rotated(old, start);
    publish(caBundle(newer, now));
    add(toSecretData(old));
    const { reconcile, used, reports } = leader();
    await reconcile();
    expect(used).toEqual([]);
    expect(reports.at(-1)).toMatchObject({ broken: 'OlderThanPublished' });
  });

  test('M2: a valid authority restored into a new cluster is adopted', async () => {
    const restored = await rotated(await firstAuthority(start), start);
    add(toSecretData(restored));
    const { used, reconcile } = leader();
    await reconcile();
    expect(used[0]).toEqual(restored);
    expect(keysMade).toBe(0);
  });

  test('is replaced when an administrator consents: old roots stay trusted, and the consent is removed', async () => {
    const lost = await firstAuthority(start);
    publish(caBundle(lost, now));
    add({}, { 'gatehouse.dev/new-authority': 'lost', note: 'kept' });
    const { reconcile, events } = leader();
    await reconcile();
    expect(stored().generations.map(({ id }) => id)).toEqual([
      activeGeneration(stored()).id,
      activeGeneration(lost).id,
    ]);
    expect(secrets.read(KEY)?.metadata?.annotations).toEqual({ note: 'kept' });
    expect(events.reasons()).toEqual(['AuthorityReplaced']);
  });
});

describe('a rotation', () => {
  const rotateNow = (reason: string) => {
    annotate({ 'gatehouse.dev/rotate': reason });
  };

  test('service-ca e2e forced-ca-rotation: takes each step, reports each, and ends with one generation', async () => {
    const one = leader();
    await one.reconcile();
    const first = activeGeneration(stored()).id;
    rotateNow('audit');
    await until(one, () => statesOf(stored()).join() === 'active,retiring');
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

  test('service-ca e2e time-based-ca-rotation: starts automatically at half of the lifetime', async () => {
    const one = leader();
    await one.reconcile();
    now = new Date(start.getTime() + 366 * 24 * HOUR);
    await until(one, () => stored().generations.length === 2, 0);
    expect(statesOf(stored())).toEqual(['pending', 'active']);
    expect(one.events.all.at(-1)?.message).toContain('HalfLife');
  });

  const constrained = (dnsSuffixes: readonly string[]) => {
    const { config } = leader();
    const ca = { ...config.ca, nameConstraints: true };
    return leader({ config: { ...config, ca, servingCerts: { ...config.servingCerts, dnsSuffixes } } });
  };

  test('T10: for a new suffix warns about clients that hold only the root before it', async () => {
    await constrained([]).reconcile();
    const { id } = activeGeneration(stored());
    const rotateFor = async (one: ReturnType<typeof leader>) => {
      rotateNow(now.toISOString());
      const count = stored().generations.length;
      await until(one, () => stored().generations.length > count && statesOf(stored())[0] === 'active');
      return one.events.all.filter(({ reason }) => /Rotation(Started|Activated)/.test(reason));
    };
    const type = 'Warning';
    const message = expect.stringContaining(
      `only the root of generation ${id} reject each new certificate with a name outside its name constraints, such as name.apps.example.com`,
    ) as string;
    const wider = await rotateFor(constrained(['apps.example.com']));
    expect(wider).toMatchObject([
      { type, message },
      { type, message },
    ]);
    const same = await rotateFor(constrained(['apps.example.com']));
    expect(same).toMatchObject([{ type: 'Normal' }, { type: 'Normal' }]);
  });

  test('T11: to a CA that cannot sign the names of the settings is abandoned, and the next one can', async () => {
    await leader().reconcile();
    const first = activeGeneration(stored()).id;
    rotateNow('audit');
    await constrained([]).reconcile();
    const one = constrained(['apps.example.com']);
    await until(one, () => statesOf(stored()).join() === 'active');
    expect(stored().gone).toHaveLength(1);
    expect(activeGeneration(stored()).id).toBe(first);
    expect(one.events.all.at(-1)).toMatchObject({
      ...{ type: 'Warning', reason: 'RotationAbandoned' },
      message: expect.stringContaining('its name constraints exclude name.apps.example.com') as string,
    });
    rotateNow('again');
    await until(one, () => statesOf(stored()).join() === 'active,retiring');
  });

  test('D4: runs once per reason, even after a leader change', async () => {
    const one = leader();
    await one.reconcile();
    rotateNow('audit');
    await until(one, () => stored().generations.length === 2 && statesOf(stored())[0] === 'active');
    await until(leader(), () => stored().generations.length === 1, 10 * DAY);
    await leader().reconcile();
    expect(keysMade).toBe(2);
    rotateNow('another audit');
    await leader().reconcile();
    expect(keysMade).toBe(3);
  });

  test('T7: waits for a stale target and names it', async () => {
    const one = leader({
      evidence: {
        ...EVIDENCE,
        targetsWithout: () => ({ vetoing: ['CustomResourceDefinition x'], delaying: ['ConfigMap prod/x'] }),
      },
    });
    await one.reconcile();
    rotateNow('audit');
    await expect(
      until(one, () => statesOf(stored())[0] === 'active' && stored().generations.length > 1),
    ).rejects.toThrow('not reached: pending,active');
    expect(one.events.all.at(-1)).toMatchObject({
      reason: 'RotationWaiting',
      message: expect.stringContaining('CustomResourceDefinition x') as string,
    });
  });

  test('T12: a target in a namespace delays the rotation for six hours, and the Events name it', async () => {
    const one = leader({
      evidence: { ...EVIDENCE, targetsWithout: () => ({ vetoing: [], delaying: ['ConfigMap prod/x'] }) },
    });
    await one.reconcile();
    const asked = now;
    rotateNow('audit');
    await until(
      one,
      () => statesOf(stored())[0] === 'active' && stored().generations.length > 1,
      30 * MINUTE,
    );
    expect(now.getTime() - asked.getTime()).toBe(6.5 * HOUR);
    const of = (reason: string) => one.events.all.filter((event) => event.reason === reason);
    expect(of('RotationWaiting')[0]?.message).toContain('until 2026-11-21T18:00:00.000Z at the latest');
    const warned = { type: 'Warning', message: expect.stringContaining('ConfigMap prod/x') as string };
    expect(of('RotationPublished')).toMatchObject([warned]);
    expect(of('RotationActivated')).toMatchObject([warned]);
  });

  test('a kind that may not be listed is reported at once, and again before Kubernetes forgets the Event', async () => {
    const problem = 'configmaps is forbidden: User "gatehouse" cannot list resource "configmaps"';
    const one = leader({
      evidence: { ...EVIDENCE, unreadable: () => [{ kind: 'ConfigMap', canVeto: false, problem }] },
    });
    await one.reconcile();
    for (let pass = 0; pass < 3; pass++) await one.reconcile();
    const reports = () => one.events.all.filter(({ reason }) => reason === 'TargetsUnreadable');
    const message = expect.stringContaining(
      `Permit it (deploy/base/controllers-account.yaml). It says: ${problem}`,
    ) as string;
    expect(reports()).toMatchObject([{ type: 'Warning', message }]);
    now = new Date(now.getTime() + HOUR);
    await one.reconcile();
    expect(reports()).toHaveLength(2);
  });

  test('T7: waits for the bundle that Gatehouse publishes, whatever the other targets report', async () => {
    const one = leader();
    await one.reconcile();
    const behind = leader({ onAuthority: () => undefined }); // the ConfigMap keeps its first bundle
    rotateNow('audit');
    await expect(
      until(behind, () => statesOf(stored())[0] === 'active' && stored().generations.length > 1),
    ).rejects.toThrow('not reached: pending,active');
  });

  test('M1: pauses while a restore window is open', async () => {
    const one = leader();
    await one.reconcile();
    const windows = cluster.objects(RESTORE_WINDOWS);
    windows.add(openWindow('x'));
    rotateNow('audit');
    await one.reconcile();
    expect(statesOf(stored())).toEqual(['active']);
    expect(one.reports.at(-1)).toMatchObject({ phase: 'paused' });
    const refusals = () => one.events.all.filter(({ reason }) => reason === 'RotationRefused');
    const message = expect.stringContaining('while the restore window x is open') as string;
    expect(refusals()).toMatchObject([{ message }]);
    now = new Date(now.getTime() + 51 * MINUTE);
    await one.reconcile();
    expect(refusals()).toMatchObject([{ message }, { message }]);
    windows.remove('x');
    await one.reconcile();
    expect(statesOf(stored())).toEqual(['pending', 'active']);
  });

  test('D3: one of two leaders with the same state wins each step, and nothing is lost', async () => {
    const [one, two] = [leader(), leader()];
    await one.reconcile();
    rotateNow('audit');
    for (let pass = 0; pass < 12; pass++) {
      await Promise.allSettled([one.reconcile(), two.reconcile()]);
      now = new Date(now.getTime() + 5 * MINUTE);
    }
    expect(stored().generations).toHaveLength(2);
    expect(one.used.at(-1)).toEqual(stored());
    expect(two.used.at(-1)).toEqual(stored());
  });

  test.each(['before', 'after'] as const)('D2: converges when killed %s each write', async (when) => {
    await leader().reconcile();
    const first = activeGeneration(stored()).id;
    rotateNow('audit');
    for (let pass = 0; pass < 40; pass++) {
      const doomed = leader();
      secrets.interrupt(when);
      await doomed.reconcile().catch(() => undefined);
      for (let step = 0; step < 3; step++) await leader().reconcile();
      now = new Date(now.getTime() + 4 * DAY);
    }
    expect(stored()).toMatchObject({
      generations: [{ state: 'active' }],
      gone: [first],
      rotatedFor: 'audit',
    });
  });

  test('an authority that cannot be written is still distributed: certs are still renewed', async () => {
    await leader().reconcile();
    rotateNow('audit');
    const { reconcile, used } = leader({
      client: { ...cluster.client, replace: () => Promise.reject(new Error('forbidden')) },
    });
    await expect(reconcile()).rejects.toThrow('forbidden');
    expect(used).toHaveLength(1);
  });

  test('an authority that the API server refuses is reported with the remedy, and continues once it is fixed', async () => {
    let refused = false;
    const one = leader({
      client: {
        ...cluster.client,
        replace: (kind, object) =>
          refused
            ? Promise.reject(new WriteRefused('403 Forbidden. Permit it.'))
            : cluster.client.replace(kind, object),
      },
    });
    await one.reconcile();
    rotateNow('audit');
    refused = true;
    await expect(one.reconcile()).rejects.toThrow('Permit it');
    expect(one.events.reasons()).toEqual(['AuthorityCreated']); // not confirmed: the object may have changed
    now = new Date(start.getTime() + 5_000);
    await expect(one.reconcile()).rejects.toThrow('Permit it');
    await expect(one.reconcile()).rejects.toThrow('Permit it');
    expect(one.events.all.slice(1)).toMatchObject([
      {
        regarding: { kind: 'Secret', name: NAME },
        type: 'Warning',
        reason: 'WriteRefused',
        message: 'secret gatehouse-authority is not written: 403 Forbidden. Permit it.',
      },
    ]);
    refused = false;
    await one.reconcile();
    expect(statesOf(stored())).toEqual(['pending', 'active']);
  });

  test('the record of trust does not wait for a distrust that waits for the restore windows', async () => {
    const one = leader({
      client: {
        ...cluster.client,
        listAll: (...args) =>
          args[0].kind === RESTORE_WINDOWS.kind
            ? Promise.reject(new ApiError(403, 'restorewindows is forbidden'))
            : cluster.client.listAll(...args),
      },
    });
    await until(one, () => one.reports.at(-1)?.phase === 'steady');
    const before = activeGeneration(stored());
    annotate({ 'gatehouse.dev/distrust': before.id });
    now = new Date(now.getTime() + 2 * DAY);
    await one.reconcile();
    const result = await one.reconcile();
    expect(activeGeneration(stored()).id).toBe(before.id);
    expect(activeGeneration(stored()).trustedUntil?.getTime()).toBe(now.getTime() + 91 * DAY);
    expect(result).toEqual({ kind: 'requeue', at: new Date(now.getTime() + MINUTE) });
    expect(one.events.all.at(-1)?.message).toContain('restorewindows is forbidden');
  });

  test('a record of trust that is not extended is reported, and again before Kubernetes forgets the Event', async () => {
    const one = leader();
    await until(one, () => one.reports.at(-1)?.phase === 'steady');
    const until90 = (activeGeneration(stored()).trustedUntil?.getTime() ?? 0) - 90 * DAY;
    now = new Date(now.getTime() + 2 * DAY);
    const full = {
      replace: () => Promise.reject(new ApiError(500, 'etcdserver: mvcc: database space exceeded')),
    };
    const unable = leader({ client: { ...cluster.client, ...full } });
    for (let minutes = 0; minutes < 80; minutes += 10) {
      await expect(unable.reconcile()).rejects.toThrow('database space exceeded');
      now = new Date(now.getTime() + 10 * MINUTE);
    }
    expect(unable.events.reasons()).toEqual(['TrustNotRecorded', 'TrustNotRecorded']);
    expect(unable.events.all[0]?.message).toContain(`since ${new Date(until90).toISOString()}`);
  });

  test('a distrust drops the signing generation at once, and another one signs', async () => {
    const one = leader();
    await one.reconcile();
    const bad = activeGeneration(stored()).id;
    annotate({ 'gatehouse.dev/distrust': bad });
    await one.reconcile();
    expect(stored()).toMatchObject({ generations: [{ state: 'active', bridge: undefined }], gone: [bad] });
    await one.reconcile();
    expect(keysMade).toBe(2);
    expect(one.events.all.at(-1)).toMatchObject({ type: 'Warning', reason: 'GenerationDistrusted' });
  });

  test('data of other clients in the Secret stays', async () => {
    const one = leader();
    await one.reconcile();
    secrets.edit(KEY, (secret) => ({ ...secret, data: { ...secret.data, 'notes.txt': base64('hello') } }));
    rotateNow('audit');
    await one.reconcile();
    expect(secrets.read(KEY)?.data).toHaveProperty(['notes.txt'], base64('hello'));
    expect(secrets.read(KEY)?.metadata?.annotations).toEqual({ 'gatehouse.dev/rotate': 'audit' });
  });
});

describe('an imported CA', () => {
  const signerOf = ({ publicKey, privateKey }: KeyPair) => ({ publicKey, sign: signWith(privateKey) });
  const importFrom = 'corporate-ca';
  const put = (certificate: string, key: string) => {
    secrets.remove(`${OWN_NAMESPACE}/${importFrom}`);
    secrets.add({
      metadata: { namespace: OWN_NAMESPACE, name: importFrom },
      data: { 'tls.crt': base64(certificate), 'tls.key': base64(key) },
    });
  };
  const give = async () => {
    const generation = activeGeneration(await firstAuthority(start));
    put(generation.certificate, generation.key === undefined ? '' : openKey(generation.key));
    return generation.id;
  };

  test('signs at once, and its successor signs once every target trusts it', async () => {
    const id = await give();
    const one = leader({ importFrom });
    await one.reconcile();
    expect(activeGeneration(stored()).id).toBe(id);
    const next = await give();
    await one.reconcile();
    expect(stored().generations.map((generation) => generation.id)).toEqual([next, id]);
    expect(statesOf(stored())).toEqual(['pending', 'active']);
    await until(one, () => activeGeneration(stored()).id === next);
    expect(keysMade).toBe(0);
  });

  test('that is pending is withdrawn by another CA in its Secret, never by a Secret that is unusable for a moment', async () => {
    await give();
    const first = secrets.read(`${OWN_NAMESPACE}/${importFrom}`);
    const one = leader({ importFrom });
    await one.reconcile();
    const keyPair = await generateKeyPair('ECDSA-P256');
    const term = {
      serial: randomSerial(),
      notBefore: start,
      notAfter: new Date(start.getTime() + 400 * DAY),
    };
    put((await signRoot('Acme Root', signerOf(keyPair), term)).certificate, keyPair.privateKey);
    await one.reconcile();
    const [next] = stored().generations.map(({ id }) => id);
    put('garbage', 'garbage');
    await one.reconcile();
    secrets.remove(`${OWN_NAMESPACE}/${importFrom}`);
    await one.reconcile();
    expect(statesOf(stored())).toEqual(['pending', 'active']);
    secrets.add({ metadata: { namespace: OWN_NAMESPACE, name: importFrom }, data: first?.data ?? {} });
    await one.reconcile();
    expect(stored()).toMatchObject({ generations: [{ state: 'active' }], gone: [next] });
    expect(one.events.all.at(-1)).toMatchObject({
      reason: 'RotationAbandoned',
      message: expect.stringContaining(`generation ${next ?? ''} is no longer the CA to be used`) as string,
    });
  });

  test('T9: with a renewed root is published with both roots, and the Event says when the former one ends', async () => {
    const keyPair = await generateKeyPair('ECDSA-P256');
    const rootUntil = async (days: number) => {
      const term = { notBefore: start, notAfter: new Date(start.getTime() + days * DAY) };
      return (await signRoot('Acme Root', signerOf(keyPair), { ...term, serial: randomSerial() }))
        .certificate;
    };
    const [former, renewed] = [await rootUntil(400), await rootUntil(800)];
    put(former, keyPair.privateKey);
    const one = leader({ importFrom });
    await one.reconcile();
    put(renewed, keyPair.privateKey);
    await one.reconcile();
    await one.reconcile();
    expect(statesOf(stored())).toEqual(['active']);
    const published = configMaps.read(`${OWN_NAMESPACE}/gatehouse-cabundle`);
    expect(published?.data?.['ca.crt']).toBe(renewed + former);
    expect(one.events.all.at(-1)).toMatchObject({
      ...{ type: 'Normal', reason: 'RootRenewed' },
      message: expect.stringContaining(
        `restart before ${new Date(start.getTime() + 400 * DAY).toISOString()}`,
      ) as string,
    });
  });

  test('is waited for if it is missing at the start', async () => {
    await expect(leader({ importFrom }).reconcile()).rejects.toThrow(
      'the CA in secret gatehouse-system/corporate-ca cannot be used: the secret does not exist',
    );
    expect(secrets.writes()).toBe(0);
  });

  test('stays in use and is reported if its Secret is lost later, whatever its age', async () => {
    await give();
    const one = leader({ importFrom });
    await one.reconcile();
    secrets.remove(`${OWN_NAMESPACE}/${importFrom}`);
    now = new Date(start.getTime() + 500 * 24 * HOUR);
    await one.reconcile();
    await one.reconcile();
    expect(statesOf(stored())).toEqual(['active']);
    expect(one.events.reasons()).toEqual(['AuthorityCreated', 'CaRefused']);
    now = new Date(now.getTime() + HOUR);
    await one.reconcile();
    expect(one.events.reasons()).toEqual(['AuthorityCreated', 'CaRefused', 'CaRefused']);
  });

  test('that takes over while its Secret is unusable is announced', async () => {
    await give();
    const one = leader({ importFrom });
    await one.reconcile();
    const next = await give();
    await one.reconcile();
    put('garbage', 'garbage');
    await until(one, () => activeGeneration(stored()).id === next);
    expect(one.events.reasons()).toContain('CaRefused');
    expect(one.events.all.at(-1)).toMatchObject({
      reason: 'RotationActivated',
      message: expect.stringContaining('the key of the previous generation is destroyed') as string,
    });
  });

  test('is reported if its Secret cannot be read, and what the authority needs meanwhile is done', async () => {
    await give();
    const before = leader({ importFrom });
    await until(before, () => before.reports.at(-1)?.phase === 'steady');
    const { id, trustedUntil } = activeGeneration(stored());
    now = new Date(now.getTime() + 2 * DAY);
    const one = leader({
      importFrom,
      client: {
        ...cluster.client,
        get: (resource, ref, ...more) =>
          ref.name === importFrom
            ? Promise.reject(new ApiError(403, 'secrets "corporate-ca" is forbidden'))
            : cluster.client.get(resource, ref, ...more),
      },
    });
    for (let runs = 0; runs < 3; runs++) await expect(one.reconcile()).rejects.toThrow('the imported CA');
    const active = activeGeneration(stored());
    expect(active.id).toBe(id);
    expect(active.trustedUntil?.getTime()).toBe((trustedUntil?.getTime() ?? 0) + 2 * DAY);
    expect(one.used.at(-1)).toEqual(stored());
    expect(one.events.reasons()).toEqual(['CaUnreadable']);
    now = new Date(now.getTime() + HOUR);
    await expect(one.reconcile()).rejects.toThrow('the imported CA');
    expect(one.events.reasons()).toEqual(['CaUnreadable', 'CaUnreadable']);
    expect(one.events.all.at(-1)?.message).toContain('is forbidden');
  });

  test.skipIf(!hasOpenssl)('without clientAuth is reported as soon as a Service asks for it', async () => {
    const { cert, key } = makeCa({ more: ['extendedKeyUsage=serverAuth'] });
    put(cert, key);
    now = new Date(Date.now() + 30 * MINUTE); // a CA from openssl is valid from the current second on
    let wantsClientCerts = false;
    const one = leader({
      importFrom,
      evidence: { ...EVIDENCE, wantsClientCerts: () => wantsClientCerts },
    });
    for (let passes = 0; passes < 3; passes++) await one.reconcile();
    expect(one.events.reasons()).toEqual(['AuthorityCreated']);
    wantsClientCerts = true;
    for (let passes = 0; passes < 3; passes++) await one.reconcile();
    expect(one.events.reasons()).toEqual(['AuthorityCreated', 'CaForServersOnly']);
    expect(one.events.all.at(-1)).toMatchObject({ type: 'Warning' });
    const other = makeCa({ more: ['extendedKeyUsage=serverAuth,clientAuth'] });
    put(other.cert, other.key);
    await one.reconcile();
    expect(one.events.reasons()).toEqual(['AuthorityCreated', 'CaForServersOnly', 'RotationStarted']);
  });

  test('T11: that clients would reject never replaces one that they accept', async () => {
    const id = await give();
    const one = leader({ importFrom });
    await one.reconcile();
    const pair = promisify(generateKeyPairOfNode);
    const { publicKey, privateKey } = await pair('rsa', { modulusLength: 1024 });
    const key = toPrivateKeyPem(privateKey);
    const term = {
      serial: randomSerial(),
      notBefore: start,
      notAfter: new Date(start.getTime() + 24 * HOUR),
    };
    const { certificate } = await signRoot('weak', { publicKey, sign: signWith(key) }, term);
    put(certificate, key);
    await one.reconcile();
    expect(stored().generations.map((generation) => generation.id)).toEqual([id]);
    expect(one.events.all.at(-1)).toMatchObject({
      type: 'Warning',
      reason: 'CaRefused',
      message: expect.stringContaining(
        'tls.crt: its key (rsa 1024) is of a type that some clients reject',
      ) as string,
    });
  });
});

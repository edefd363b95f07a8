// suite: shared-plane, sandbox: long
/**
 * C1–C3: a restore overwrites Gatehouse's own state in the cluster, as a backup tool does: without asking Gatehouse.
 */
import { createHash, X509Certificate } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { withoutPathTokens } from '../../src/json/abort.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { NamedRef, Resource } from '../../src/kube/object.ts';
import {
  configMaps,
  events,
  leases,
  mutatingWebhookConfigurations,
  secrets,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import { SHARED_STATE_KEY } from '../../src/pki/annotations.ts';
import { createAuthority } from '../../src/pki/authority/authority.ts';
import { withAuthority } from '../../src/pki/authority/secret.ts';
import { generateKeyPair, randomSerial } from '../../src/pki/x509/keys.ts';
import type { Balancer } from '../support/balancer.ts';
import {
  AUTHORITY,
  BUNDLE,
  LEASE,
  RESTORE_WINDOWS,
  SERVING,
  SYSTEM_NAMESPACE,
  type Cluster,
} from '../support/cluster.ts';
import { rotateAuthority } from '../support/end-trust.ts';
import { writesOf } from '../support/gatehouse-audit.ts';
import { enforceExamples, startReplicas } from '../support/gatehouse-cluster.ts';
import { isLeading, startReplica, sumOf, type Replica } from '../support/gatehouse.ts';
import { createAdmitter, startLoad, type Load } from '../support/load.ts';
import {
  text,
  type Conditioned,
  type SecretObject,
  type WebhookConfigurationObject,
  type LeaseObject,
} from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { presentedSerial } from '../support/tls.ts';

const CONFIGURATION = { name: 'gatehouse' };
const SETTINGS = { 'ca-propagation-wait': '1s' } as const;
const REPAIRED_MS = 5_000;
const PER_SECOND = 40;
const LANES = 8;

interface EventObject extends KubeObject {
  readonly reason?: string;
  readonly count?: number;
  readonly series?: { readonly count?: number };
}

let balancer: Balancer;
let cluster: Cluster;
let replicas: readonly Replica[] = [];
let admitter: ReturnType<typeof createAdmitter>;

beforeAll(async () => {
  ({ balancer, cluster, replicas } = await startReplicas(['one', 'two'], { settings: SETTINGS }));
  admitter = createAdmitter(cluster, LANES);
  await enforceExamples(cluster);
});

afterAll(async () => {
  await admitter.stop();
  await cluster.stop();
});

/** A restore with `existingResourcePolicy: update`: the content of the backup overwrites the existing object. */
const overwrite = (resource: Resource, ref: NamedRef, part: object) =>
  cluster.admin.patchMerge(resource, ref, part);

const read = async <T extends KubeObject>(resource: Resource, ref: NamedRef): Promise<T> => {
  const found = await cluster.admin.get<T>(resource, ref);
  if (found === undefined) throw new Error(`there is no ${resource.kind} ${ref.name}`);
  return found;
};

/** Private keys must not appear in the output of a failed test. */
const digest = (data: Readonly<Record<string, string>>) =>
  createHash('sha256').update(JSON.stringify(data)).digest('hex');

/** Without the copies that the leader keeps for the webhooks, which follow the path tokens. */
const certOf = (serving: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(serving).filter(([key]) => key !== SHARED_STATE_KEY));

const dataOf = async (ref: NamedRef) => (await read<SecretObject>(secrets, ref)).data ?? {};

const repaired = (what: string, probe: () => Promise<boolean>) =>
  eventually(`${what} is repaired`, probe, { timeoutMs: REPAIRED_MS, everyMs: 50 });

async function leaderAndOther(): Promise<readonly [Replica, Replica]> {
  const [one, two] = replicas;
  if (one === undefined || two === undefined) throw new Error('there are two replicas');
  return (await isLeading(one)) ? [one, two] : [two, one];
}

/** A counter of the leader; 0 if it does not exist yet. */
const counter = async (name: string) => sumOf((await leaderAndOther()).slice(0, 1), name);

async function timesTold(reason: string): Promise<number> {
  const { items } = await cluster.admin.list<EventObject>(events, { namespace: SYSTEM_NAMESPACE });
  return items
    .filter((event) => event.reason === reason)
    .reduce((sum, { count = 1, series }) => sum + Math.max(count, series?.count ?? 0), 0);
}

async function generationIds(): Promise<string> {
  const secret = await read<SecretObject>(secrets, AUTHORITY);
  const generations = JSON.parse(text(secret, 'generations.json')) as readonly { readonly id: string }[];
  return generations.map(({ id }) => id).join();
}

type Before = Awaited<ReturnType<typeof snapshot>>;

const CONFIGURATIONS = [mutatingWebhookConfigurations, validatingWebhookConfigurations];

async function snapshot() {
  const map = await read<SecretObject>(configMaps, BUNDLE);
  return {
    authority: await dataOf(AUTHORITY),
    serving: await dataOf(SERVING),
    bundle: map.data?.['ca.crt'] ?? '',
    configurations: await Promise.all(
      CONFIGURATIONS.map((kind) => read<WebhookConfigurationObject>(kind, CONFIGURATION)),
    ),
  };
}

async function overwriteAll({ authority, serving, bundle }: Before): Promise<void> {
  await overwrite(secrets, AUTHORITY, { data: authority });
  await overwrite(secrets, SERVING, { data: serving });
  await overwrite(configMaps, BUNDLE, { data: { 'ca.crt': bundle } });
}

/** Rotates until the authority in the backup is obsolete: no bundle contains its CA any more. */
async function rotate(reason: string): Promise<void> {
  await rotateAuthority(cluster, reason, () =>
    eventually('every replica presents a cert of the new CA', async () => {
      const { serving } = await snapshot();
      const { serialNumber } = new X509Certificate(Buffer.from(serving['tls.crt'] ?? '', 'base64'));
      const presented = await Promise.all(replicas.map(({ port }) => presentedSerial(port)));
      return presented.every((serial) => serial === serialNumber);
    }),
  );
  await eventually('only the new CA is published', async () => {
    const { bundle, configurations } = await snapshot();
    const all = [bundle, ...configurations.flatMap(bundlesOf)];
    return all.every((one) => one === bundle && one.split('BEGIN CERTIFICATE').length === 2);
  });
}

const bundlesOf = ({ webhooks = [] }: WebhookConfigurationObject) =>
  webhooks.map(({ clientConfig }) => Buffer.from(clientConfig.caBundle ?? '', 'base64').toString());

test('S: backups exclude the state of Gatehouse', async () => {
  const own: readonly (readonly [Resource, NamedRef])[] = [
    [secrets, AUTHORITY],
    [secrets, SERVING],
    [configMaps, BUNDLE],
    [leases, LEASE],
    ...CONFIGURATIONS.map((kind) => [kind, CONFIGURATION] as const),
  ];
  for (const [resource, ref] of own) {
    const { metadata } = await read(resource, ref);
    expect(metadata?.labels, resource.kind).toMatchObject({ 'velero.io/exclude-from-backup': 'true' });
  }
});

describe('C1: a restore replaces the authority in use with an older valid one', () => {
  let load: Load;
  let cutting: NodeJS.Timeout;

  beforeEach(() => {
    load = startLoad({ perSecond: PER_SECOND, lanes: LANES, request: admitter.admit });
    // The API server reuses its connections: only new connections show which certificate the replica presents.
    cutting = setInterval(() => void load.between(() => balancer.cut(1)), 300);
  });
  afterEach(async () => {
    clearInterval(cutting);
    await load.stop();
  });

  const rounds: readonly (readonly [string, (before: Before) => Promise<unknown>])[] = [
    ['alone', (before) => overwrite(secrets, AUTHORITY, { data: before.authority })],
    ['with the serving certificate and the published bundle', overwriteAll],
  ];

  test.each(rounds)(
    '%s: no admission fails, and the CA bundle of clients does not change',
    async (how, restore) => {
      const before = await snapshot();
      await rotate(how);
      const now = await snapshot();
      const [restored, told] = [
        await counter('gatehouse_authority_restored_total'),
        await timesTold('SignerRestored'),
      ];

      await restore(before);
      await repaired('the authority', async () => {
        const { authority, bundle } = await snapshot();
        return authority['generations.json'] === now.authority['generations.json'] && bundle === now.bundle;
      });
      await repaired('the serving certificate', async () => {
        const { serving } = await snapshot();
        return serving['tls.crt'] !== before.serving['tls.crt'];
      });
      await sleep(2_000); // time for late failures
      clearInterval(cutting);
      const { sent, failures } = await load.stop();
      expect(sent).toBeGreaterThan(PER_SECOND);
      expect(failures).toEqual([]);
      const { bundle, configurations } = await snapshot();
      expect(bundle).toBe(now.bundle);
      for (const one of configurations.flatMap(bundlesOf)) expect(one).toBe(now.bundle);
      expect(await counter('gatehouse_authority_restored_total')).toBe(restored + 1);
      await eventually('an Event reports it', async () => (await timesTold('SignerRestored')) > told);
    },
  );

  test('only its serving certificate, while the leader cannot repair it: no replica presents an untrusted certificate', async () => {
    const before = await snapshot();
    await rotate('frozen');
    const [leader, other] = await leaderAndOther();
    balancer.setBackends([other.port]);
    await load.between(() => balancer.cut(1));
    const serial = await presentedSerial(other.port);

    leader.program.kill('SIGSTOP');
    try {
      await overwrite(secrets, SERVING, { data: before.serving });
      await sleep(3_000); // less than the duration of a lease
      expect(await presentedSerial(other.port)).toBe(serial);
    } finally {
      leader.program.kill('SIGCONT');
      balancer.setBackends(replicas.map(({ port }) => port));
    }
    await repaired('the serving certificate', async () => {
      const { serving } = await snapshot();
      return serving['tls.crt'] !== before.serving['tls.crt'];
    });
    clearInterval(cutting);
    expect((await load.stop()).failures).toEqual([]);
  });
});

describe('C2: a restore replaces the authority in use with an unusable one', () => {
  const stranger = async () =>
    await createAuthority({
      keyPair: await generateKeyPair('ECDSA-P256'),
      serial: randomSerial(),
      now: new Date(),
    });

  const kinds: readonly (readonly [string, () => Promise<unknown>])[] = [
    [
      'one of another cluster',
      async () => overwrite(secrets, AUTHORITY, { data: withAuthority({}, await stranger()) }),
    ],
    [
      'one whose key is of another CA',
      async () => {
        const other = Object.entries(withAuthority({}, await stranger()));
        const key = other.find(([name]) => name.endsWith('.key'))?.[1];
        await overwrite(secrets, AUTHORITY, { data: { [`${await generationIds()}.key`]: key } });
      },
    ],
    ['garbage', () => overwrite(secrets, AUTHORITY, { data: { 'generations.json': 'eA==' } })],
    ['its deletion', () => cluster.admin.delete(secrets, AUTHORITY)],
  ];

  test.each(kinds)(
    '%s: the leader writes back the authority in use, and reports it',
    async (_what, spoil) => {
      const before = await snapshot();
      const [restored, told] = [
        await counter('gatehouse_authority_restored_total'),
        await timesTold('SignerRestored'),
      ];
      const load = startLoad({ perSecond: PER_SECOND, lanes: LANES, request: admitter.admit });
      await spoil();
      await repaired(
        'the authority',
        async () => (await counter('gatehouse_authority_restored_total')) > restored,
      );
      const { failures } = await load.stop();
      expect(failures).toEqual([]);
      const after = await snapshot();
      expect(digest(after.authority)).toBe(digest(before.authority));
      expect(digest(certOf(after.serving))).toBe(digest(certOf(before.serving)));
      expect(after.bundle).toBe(before.bundle);
      for (const one of after.configurations.flatMap(bundlesOf)) expect(one).toBe(before.bundle);
      await eventually('an Event reports it', async () => (await timesTold('SignerRestored')) > told);
    },
  );
});

describe('C3: a restore overwrites what the API server needs to call Gatehouse', () => {
  const expectRepaired = (kind: Resource, before: WebhookConfigurationObject) =>
    repaired(kind.kind, async () => {
      const now = await cluster.admin.get<WebhookConfigurationObject>(kind, CONFIGURATION);
      return textOf(now) === textOf(before);
    });
  /** Without the path tokens, which may rotate during the repair. */
  const textOf = (own: WebhookConfigurationObject | undefined) =>
    withoutPathTokens(JSON.stringify(own?.webhooks ?? []));
  const edits: readonly (readonly [string, (kind: Resource, own: WebhookConfigurationObject) => unknown])[] =
    [
      [
        'the caBundle of another CA',
        (kind, own) => {
          const other = Buffer.from(cluster.plane.ca).toString('base64');
          const stale = (own.webhooks ?? []).map((entry) => ({
            ...entry,
            clientConfig: { ...entry.clientConfig, caBundle: other },
          }));
          return overwrite(kind, CONFIGURATION, { webhooks: stale });
        },
      ],
      ['its deletion', (kind) => cluster.admin.delete(kind, CONFIGURATION)],
    ];

  test.each(
    CONFIGURATIONS.flatMap((kind) => edits.map(([what, edit]) => [kind.kind, what, kind, edit] as const)),
  )('%s, %s: repaired within 5 s', async (_kind, _what, kind, edit) => {
    const before = await read<WebhookConfigurationObject>(kind, CONFIGURATION);
    await edit(kind, before);
    await expectRepaired(kind, before);
    await repaired('admission', () => admitter.admit(0).then(() => true));
  });

  test('the published bundle: repaired within 5 s', async () => {
    const { bundle } = await snapshot();
    await overwrite(configMaps, BUNDLE, { data: { 'ca.crt': cluster.plane.ca } });
    await repaired('the ConfigMap', async () => (await snapshot()).bundle === bundle);
    await cluster.admin.delete(configMaps, BUNDLE);
    await repaired('the ConfigMap', () => snapshot().then((now) => now.bundle === bundle));
  });
});

describe('C3: a restore overwrites the lease', () => {
  const ways: readonly (readonly [string, (lease: LeaseObject, other: string) => Promise<unknown>])[] = [
    [
      'with a holder that is gone and a long duration',
      () => overwrite(leases, LEASE, { spec: { holderIdentity: 'gone', leaseDurationSeconds: 3_600 } }),
    ],
    [
      'with the other replica',
      (_lease, other) => overwrite(leases, LEASE, { spec: { holderIdentity: other } }),
    ],
    [
      'with an older copy',
      ({ metadata, spec }, other) =>
        overwrite(leases, LEASE, {
          metadata: { annotations: { ...metadata?.annotations, 'gatehouse.dev/epoch': '0' } },
          spec: { ...spec, holderIdentity: other, renewTime: '2026-01-01T00:00:00.000000Z' },
        }),
    ],
    ['by its deletion', () => cluster.admin.delete(leases, LEASE)],
  ];

  test.each(ways)(
    '%s: its leader recovers it within 5 s and continues to lead, and the other replica writes nothing',
    async (_how, spoil) => {
      const [leader, other] = await leaderAndOther();
      const written = writesOf(cluster.plane, other.name).length;
      const lease = await read<LeaseObject>(leases, LEASE);
      await spoil(lease, other.name);
      await repaired('the lease', async () => {
        const now = await cluster.admin.get<LeaseObject>(leases, LEASE);
        return now?.spec?.holderIdentity === leader.name && Number(epochOf(now)) > Number(epochOf(lease));
      });
      await sleep(3_000); // the other replica reads the lease every two seconds
      expect([await isLeading(leader), await isLeading(other)]).toEqual([true, false]);
      expect(writesOf(cluster.plane, other.name)).toHaveLength(written);
    },
  );

  const epochOf = ({ metadata }: KubeObject) => metadata?.annotations?.['gatehouse.dev/epoch'];

  test('the older copy could be a rollback, so it alone caused a sweep of everything', async () => {
    const { items } = await cluster.admin.list<KubeObject>(RESTORE_WINDOWS);
    expect(items.map(({ metadata }) => metadata?.name?.replace(/\d+$/, 'N'))).toEqual(['rollback-N']);
  });
});

test('F2: a leader that starts after more than ten minutes without a leader sweeps everything once', async () => {
  await Promise.all(replicas.map(({ program }) => program.stop(30_000)));
  const left = Math.floor(Date.now() / 1_000) - 1_200;
  await overwrite(leases, LEASE, {
    spec: { renewTime: new Date(left * 1_000).toISOString().replace('Z', '000Z') },
  });
  const heir = await startReplica(cluster.plane, {
    name: 'three',
    servicePort: balancer.port,
    settings: SETTINGS,
  });
  replicas = [heir];
  balancer.setBackends([heir.port]);
  const swept = ({ status }: Conditioned) =>
    status?.conditions?.some(({ type, status: is }) => type === 'SweepComplete' && is === 'True') ?? false;
  await cluster.see<Conditioned>('the sweep at start', RESTORE_WINDOWS, { name: `startup-${left}` }, swept);
  await eventually('the sweep is not due any more', async () => {
    const { metadata } = await read(leases, LEASE);
    return metadata?.annotations?.['gatehouse.dev/sweep-due'] === undefined;
  });
});

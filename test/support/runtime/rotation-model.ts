/**
 * A model cluster for random schedules of years: two leaders, targets, serving certs, servers and clients. Tenants
 * have one target that cannot be written, and one that they keep reverting.
 */
import { generateKeyPairSync } from 'node:crypto';

import { createSeeded } from '../seeded.ts';
import { resolveConfig } from '../../../src/config/config.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../../src/pki/durations.ts';
import { ROTATE } from '../../../src/pki/annotations.ts';
import { parseAuthority } from '../../../src/pki/authority/secret.ts';
import {
  activeGeneration,
  type Authority,
  caBundle,
  signingOf,
} from '../../../src/pki/authority/authority.ts';
import { rootOf } from '../../../src/pki/authority/generation.ts';
import { generateKeyPair, type KeyPair, randomSerial } from '../../../src/pki/x509/keys.ts';
import { type CertificatePem, splitCertificates, toPrivateKeyPem } from '../../../src/pki/x509/pem.ts';
import { configMaps as CONFIG_MAPS, secrets as SECRETS, services } from '../../../src/kube/well-known.ts';
import type { Secret } from '../../../src/pki/serving-certs/secret.ts';
import { issueServingCert, OutsideConstraints, TrustTooShort } from '../../../src/pki/serving-certs/issue.ts';
import { createAuthorityReconciler } from '../../../src/runtime/certificates/authority.ts';
import { type ConfigMap, createCaBundleReconciler } from '../../../src/runtime/certificates/ca-bundle.ts';
import { createTargetRecords } from '../../../src/runtime/injection/target-store.ts';
import { CA_SECRET, createCaOwner } from './ca-owner.ts';
import { createCluster, NEVER, OWN_NAMESPACE, silent } from './fixtures.ts';
import type { Reconcile } from '../../../src/runtime/controller.ts';

export const HOST = 'db.prod.svc';
const SUFFIX = 'apps.example.com';
const SECRET_KEY = `${OWN_NAMESPACE}/gatehouse-authority`;
export const CONFIGMAP_KEY = `${OWN_NAMESPACE}/gatehouse-cabundle`;

export const TIMES = { propagationWaitMs: 10 * MINUTE } as const;
export const LIFE_MS = 90 * DAY;
/** How long a process that hears nothing may still write. It may sign for much longer than a Lease allows. */
const STALE = { writer: HOUR, signer: 60 * DAY } as const;
const DELAY_MS = 6 * HOUR + MINUTE;
const PASSES = [SECOND, MINUTE, 15 * MINUTE, HOUR, 12 * HOUR, 3 * DAY, 20 * DAY] as const;

/** The content of a Service's serving Secret. Only the model reads `generation`. */
export interface Leaf {
  readonly chain: CertificatePem;
  readonly generation: string;
  readonly bridges: string;
  readonly names: string;
  readonly issuedAt: number;
  readonly endsAt: number;
}

/** One process that believes it leads: its clock, and its cached state. */
interface Leader {
  reconcile: Reconcile;
  publish: Reconcile;
  authority: Authority | undefined;
  heardAt: number;
  /** Error of its estimate of the API server's time. */
  readonly skewMs: number;
  /** Error of its local clock, which dates serving certs. */
  localSkewMs: number;
}

/** `constrained`: the CA is Gatehouse's own, and may sign only names of Services and in the operator's suffix. */
export type ModelCa = 'own' | 'constrained' | 'imported';

export type Model = Awaited<ReturnType<typeof createModel>>;

const SERVING_CERT_SERVICE = 'gatehouse.dev/serving-cert-service';
const servingSecretMetadata = {
  namespace: 'prod',
  name: 'db-tls',
  annotations: { [SERVING_CERT_SERVICE]: 'db', [`${SERVING_CERT_SERVICE}-uid`]: 'uid-of-db' },
};

/** A retry, or a step of the authority, is the remedy. An owner may let the CA end too soon. */
const isExpected = (error: unknown): boolean =>
  error instanceof TrustTooShort ||
  error instanceof OutsideConstraints ||
  (error instanceof Error && error.message.includes('too soon to issue'));

/** All servers share these keys: a rotation replaces only the authority. */
function keyPairNow(): KeyPair {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  return { algorithm: 'ECDSA-P256', publicKey, privateKey: toPrivateKeyPem(privateKey) };
}

/** @param skewMs difference between the two leaders' estimates of the API server's time */
export async function createModel(seed: number, skewMs: number, ca: ModelCa) {
  const { next: random, below: pick } = createSeeded(seed);
  const defaults = resolveConfig({}, {});
  const cluster = createCluster();
  const secrets = cluster.objects<Secret>(SECRETS);
  const configMaps = cluster.objects<ConfigMap>(CONFIG_MAPS);
  cluster.objects(services).add({ metadata: { namespace: 'prod', name: 'db', uid: 'uid-of-db' } });
  const keyPair = keyPairNow();
  const start = Date.parse('2026-01-01T00:00:00Z');
  const world = {
    now: start,
    targets: ['', '', ''],
    contended: '',
    leaves: [undefined, undefined, undefined] as (Leaf | undefined)[],
    /** `servers`: the cert in memory of each. `clients`: the bundle that each trusts. */
    servers: [undefined, undefined, undefined] as (Leaf | undefined)[],
    clients: ['', '', ''],
    rotations: 0,
    issued: [] as Leaf[],
    hasSuffix: ca === 'constrained',
    hasOwner: ca === 'imported',
    mistakes: new Set<string>(),
  };
  const owner =
    ca === 'imported'
      ? await createCaOwner(secrets, { now: () => new Date(world.now), pick, newKey: keyPairNow })
      : undefined;

  const config = {
    ...defaults,
    ca: { ...defaults.ca, secret: owner && CA_SECRET, nameConstraints: ca === 'constrained' },
    caPropagationWaitMs: TIMES.propagationWaitMs,
    servingCerts: {
      ...defaults.servingCerts,
      get dnsSuffixes() {
        return world.hasSuffix ? [SUFFIX] : [];
      },
      maxLifetimeMs: 365 * DAY,
    },
  };

  const stored = (): Authority | undefined => {
    const secret = secrets.read(SECRET_KEY);
    return secret === undefined ? undefined : parseAuthority(secret.data ?? {});
  };
  const servingSecrets = () =>
    world.leaves.flatMap((leaf) => (leaf === undefined ? [] : [{ metadata: servingSecretMetadata }]));
  const evidence = () => {
    const all = createTargetRecords([], () => undefined);
    const rootsIn = (bundle: string) =>
      new Set(bundle === '' ? [] : splitCertificates(bundle).map(({ fingerprint256 }) => fingerprint256));
    for (const [index, bundle] of [...world.targets, world.contended].entries())
      all.trust(`ConfigMap ${index}`, { roots: rootsIn(bundle), canVeto: true });
    all.report('ConfigMap', String(world.targets.length), 'contended');
    all.trust('target of a tenant', { roots: new Set(), canVeto: false });
    return all;
  };
  const clockOf = (leader: Leader) => () => new Date(world.now + leader.skewMs);

  const startProcess = (skew: number): Leader => {
    const leader: Leader = {
      authority: undefined,
      heardAt: 0,
      skewMs: skew,
      localSkewMs: skew,
      reconcile: async (key, signal) => {
        const result = await reconcile(key, signal);
        leader.heardAt = world.now;
        return result;
      },
      publish: (key, signal) => publish(key, signal),
    };
    const rootless = (id: string) => {
      const generation = leader.authority?.generations.find((one) => one.id === id);
      return generation && evidence().without(rootOf(generation).fingerprint256);
    };
    const reconcile = createAuthorityReconciler({
      client: {
        ...cluster.client,
        listAll: (kind) =>
          kind.resource === SECRETS.resource
            ? Promise.resolve({ metadata: {}, items: servingSecrets() as never })
            : cluster.client.listAll(kind),
      },
      config,
      evidence: {
        targetsWithout: rootless,
        longestLifeMs: () => LIFE_MS,
        clusterIPs: () => [],
        wantsClientCerts: () => false,
        unreadable: () => [],
      },
      generateKeyPair,
      randomSerial,
      onAuthority: (authority) => void (leader.authority = authority),
      metrics: { authority: () => undefined, authorityRestored: () => undefined },
      record: () => undefined,
      serverClock: { now: clockOf(leader), skewMs: () => 0 },
      log: silent,
    });
    const publish = createCaBundleReconciler({
      namespace: OWN_NAMESPACE,
      bundle: () => bundleOf(leader),
      client: cluster.client,
      record: () => undefined,
      now: clockOf(leader),
      log: silent,
    });
    return leader;
  };

  const bundleOf = ({ authority, ...leader }: Leader) =>
    authority === undefined ? undefined : caBundle(authority, new Date(world.now + leader.skewMs));

  const leaders: [Leader, Leader] = [startProcess(0), startProcess(skewMs)];
  const leader = (): Leader => (random() < 0.7 ? leaders[0] : leaders[1]);
  const quietly = async (work: Promise<unknown>) => {
    // A later step of the schedule retries a failure, as the workqueue does.
    await work.catch(() => undefined);
  };
  const heardWithin = (one: Leader, ms: number) => world.now - one.heardAt < ms;

  const namesNow = () => [HOST, ...(world.hasSuffix ? [`db.${SUFFIX}`] : [])];
  const isCurrent = (leaf: Leaf | undefined, { generationId, bridges }: ReturnType<typeof signingOf>) =>
    leaf?.generation === generationId &&
    leaf.names === namesNow().join() &&
    leaf.bridges === bridges.join('') &&
    world.now < leaf.issuedAt + (leaf.endsAt - leaf.issuedAt) / 2;
  const issue = async (one: Leader, index: number, isForced = false): Promise<void> => {
    const { authority } = one;
    if (authority === undefined || !heardWithin(one, STALE.signer)) return;
    const now = new Date(world.now + one.localSkewMs);
    const signing = signingOf(authority, now);
    const { generationId, bridges } = signing;
    if (!isForced && isCurrent(world.leaves[index], signing)) return;
    const dnsNames = namesNow();
    const order = { authority, dnsNames, keyPair, serial: randomSerial(), now };
    const lifetimeMs = LIFE_MS / (1 + pick(3));
    const { chain, notAfter } = await issueServingCert({ ...order, lifetimeMs });
    const leaf: Leaf = {
      chain,
      generation: generationId,
      bridges: bridges.join(''),
      names: dnsNames.join(),
      issuedAt: world.now,
      endsAt: notAfter.getTime(),
    };
    world.leaves[index] = leaf;
    world.servers[index] ??= leaf;
    world.issued.push(leaf);
  };

  const passTime = (ms: number): void => {
    world.now += ms;
    // A server loads its cert once and keeps it until it expires. Then it is restarted.
    for (const [index, server] of world.servers.entries()) {
      const leaf = world.leaves[index];
      const isOver = server !== undefined && server.endsAt <= world.now;
      if (isOver) world.servers[index] = leaf !== undefined && leaf.endsAt > world.now ? leaf : undefined;
    }
  };

  const operations = {
    reconcile: () => quietly(leader().reconcile('gatehouse-authority', NEVER)),
    bothReconcile: async () => {
      await Promise.all(leaders.map((one) => quietly(one.reconcile('gatehouse-authority', NEVER))));
    },
    publishBundle: async () => {
      const one = leader();
      if (heardWithin(one, STALE.writer)) await quietly(one.publish('gatehouse-cabundle', NEVER));
    },
    inject: () => {
      const one = leader();
      const bundle = bundleOf(one);
      if (bundle === undefined || !heardWithin(one, STALE.writer)) return;
      const target = pick(4);
      if (target < world.targets.length) world.targets[target] = bundle;
      else world.contended = bundle;
    },
    revert: () => void (world.contended = ''),
    reissue: async () => {
      const one = leader();
      try {
        await issue(one, pick(3));
      } catch (error) {
        // The leader extends the record. A leader that cannot write signs nothing.
        if (!isExpected(error)) throw error;
        await quietly(one.reconcile('gatehouse-authority', NEVER));
      }
    },
    reloadServer: () => {
      const index = pick(3);
      world.servers[index] = world.leaves[index];
    },
    reloadClient: () => {
      const sources = [...world.targets, configMaps.read(CONFIGMAP_KEY)?.data?.['ca.crt'] ?? ''];
      const source = sources[pick(sources.length)] ?? '';
      if (source !== '') world.clients[pick(3)] = source;
    },
    rotate: () => {
      if (secrets.read(SECRET_KEY) === undefined) return;
      world.rotations++;
      secrets.patch(SECRET_KEY, { metadata: { annotations: { [ROTATE]: `reason ${world.rotations}` } } });
    },
    crash: async () => {
      const which = random() < 0.5 ? 0 : 1;
      (random() < 0.7 ? secrets : configMaps).interrupt(random() < 0.5 ? 'before' : 'after');
      await quietly(leaders[which].reconcile('gatehouse-authority', NEVER));
      leaders[which] = startProcess(leaders[which].skewMs);
    },
    stepClock: () => void (leader().localSkewMs = (pick(3) - 1) * 10 * MINUTE),
    renewCa: () => owner?.renew(),
    mistakeCa: async () => {
      const id = await owner?.mistake();
      if (id !== undefined) world.mistakes.add(id);
    },
    replaceCa: async () => {
      world.rotations++;
      await owner?.replace();
    },
    changeSuffix: () => void (world.hasSuffix = !world.hasSuffix),
    pass: () => passTime((1 + pick(4)) * (PASSES[pick(PASSES.length)] ?? SECOND)),
  } satisfies Record<string, () => Promise<void> | void>;

  const activeId = () => {
    const authority = stored();
    return authority && activeGeneration(authority).id;
  };

  /** A rotation, while one leader still signs with an older state. @throws Error if it cannot end */
  async function* lastRotation(): AsyncGenerator<void> {
    const [leading, deaf] = leaders;
    const lead = async () => {
      const steps = 4; // one write each
      for (let step = 0; step < steps; step++) await quietly(leading.reconcile('gatehouse-authority', NEVER));
      await quietly(leading.publish('gatehouse-cabundle', NEVER));
      world.targets = world.targets.map(() => bundleOf(leading) ?? '');
    };
    const pass = async function* (times: number, ms: number, work: () => unknown = () => undefined) {
      for (let time = 0; time < times; time++) {
        passTime(ms);
        await lead();
        await work();
        yield;
      }
    };
    await lead();
    yield* pass(3, DELAY_MS);
    await quietly(deaf.reconcile('gatehouse-authority', NEVER));
    yield;
    const before = activeId();
    if (ca === 'imported') await operations.replaceCa();
    else operations.rotate();
    for (const ms of [0, DELAY_MS, TIMES.propagationWaitMs + MINUTE]) yield* pass(1, ms);
    if (activeId() === before) throw new Error('T12: targets of tenants prevent a rotation');
    yield* pass(12, 5 * DAY, async () => {
      for (const index of world.leaves.keys()) await signDeaf(deaf, index);
    });
    yield* pass(5, 20 * DAY);
  }

  const signDeaf = (deaf: Leader, index: number): Promise<void> =>
    issue(deaf, index, true).catch((error: unknown) => {
      if (!isExpected(error)) throw error;
    });

  return { world, operations, lastRotation, stored, pick, keyPair, configMaps };
}

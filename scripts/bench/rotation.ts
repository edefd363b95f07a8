/**
 * Measures what one rotation of the CA costs, with many targets of the bundle and many serving certs: from the request
 * until the old root is gone everywhere.
 */
import { configMaps, events, secrets, validatingWebhookConfigurations } from '../../src/kube/well-known.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { ROTATE, SERVING_CERT_LABEL } from '../../src/pki/annotations.ts';
import type { Authority } from '../../src/pki/authority/authority.ts';
import { parseAuthority } from '../../src/pki/authority/secret.ts';
import { watch } from '../../src/runtime/watch.ts';
import { endTrust } from '../../test/support/end-trust.ts';
import type { AuditEvent } from '../../test/support/control-plane.ts';
import { countByTarget, target } from '../../test/support/gatehouse-audit.ts';
import type { Replica } from '../../test/support/gatehouse.ts';
import { ASKS, entry } from '../../test/support/injection-objects.ts';
import type { SecretObject } from '../../test/support/objects.ts';
import { AUTHORITY } from '../../test/support/own-objects.ts';
import { eventually } from '../../test/support/processes.ts';
import { issuerId, leafOf, rootIds } from '../../test/support/trust-history.ts';
import { createNamespaces, createServices, log } from './burst.ts';
import { startChild } from './child.ts';
import { startClusterProcess, type ClusterKind, type ClusterProcess } from './cluster-process.ts';
import { atMost, type Figure } from './figures.ts';
import { namespaceOf, times } from './objects.ts';
import type { Answer, Question } from './readiness.ts';
import { sampleOf } from './samples.ts';
import { whole } from './table.ts';

const SERVICES = 1_000;
const CONFIG_MAPS = 950;
const WEBHOOKS = 50;
const TARGETS = CONFIG_MAPS + WEBHOOKS;
const WRITES = 3;
const EVENT_LOOP_MS = 50;
const READYZ_MS = 100;
/** One reconcile per second, and some for the steps. */
const RECONCILES_PER_SECOND = 1.5;
const PATIENCE = { timeoutMs: 600_000, everyMs: 1_000 };

interface EventObject extends KubeObject {
  readonly reason: string;
  readonly involvedObject: { readonly name: string };
}

/** @throws Error when the API server of this kind is not installed */
export async function measureRotation(kind: ClusterKind): Promise<readonly Figure[]> {
  process.env.GATEHOUSE_CA_PROPAGATION_WAIT = '1s';
  const cluster = await startClusterProcess(kind);
  try {
    const replica = await cluster.startReplica('one');
    await replica.whenReady(60_000);
    await createNamespaces(cluster);
    await createServices(cluster, SERVICES, 120_000);
    await createTargets(cluster, replica);
    const rotation = await measureOne(cluster, replica);
    await replica.program.stop(30_000);
    const what = `one rotation with ${whole(TARGETS)} targets and ${whole(SERVICES)} Services, ${kind} ${cluster.version}`;
    return [{ what, measured: `${rotation.seconds.toFixed(0)} s` }, ...figuresOf(rotation)];
  } finally {
    await cluster.stop();
    delete process.env.GATEHOUSE_CA_PROPAGATION_WAIT;
  }
}

async function measureOne(cluster: ClusterProcess, replica: Replica) {
  const trust = followTrust(cluster);
  await eventually('every Secret is seen', () => trust.leaves() >= SERVICES, PATIENCE);
  const writesBefore = await writesSoFar(cluster);
  const before = await readReplica(replica); // starts to measure the event loop anew
  const prober = startChild<Question, Answer>('readiness.ts');
  const urls = replica.operationsPorts.map((port) => `http://127.0.0.1:${port}/readyz?verbose`);
  await prober.ask({ kind: 'start', urls }, 'started');
  const startedAt = performance.now();
  await rotate(cluster, trust).catch(async (error: unknown) => {
    await prober.stop();
    throw error;
  });
  const seconds = (performance.now() - startedAt) / 1_000;
  const { ms: readyzMs } = await prober.ask({ kind: 'stop' }, 'longest');
  await prober.stop();
  const { reconciles, delayMs, longestMs } = await readReplica(replica);
  trust.stop();
  const writes = (await writesSoFar(cluster)).slice(writesBefore.length);
  return {
    ...{ seconds, readyzMs, delayMs, longestMs },
    perTarget: (countAbout(writes, TARGET) + (await countEvents(cluster, /^(trust|hook)-/))) / TARGETS,
    perLeaf: (countAbout(writes, LEAF) + (await countEvents(cluster, /^web-/))) / SERVICES,
    most: [/^configmaps team/, /^validatingwebhook.* hook-/, /^secrets team/].map((which) =>
      mostAbout(writes, which),
    ),
    reconcileRate: (reconciles - before.reconciles) / seconds,
  };
}

function figuresOf(rotation: Awaited<ReturnType<typeof measureOne>>): readonly Figure[] {
  const { perTarget, perLeaf, most, delayMs, longestMs, readyzMs, reconcileRate } = rotation;
  const limited = (what: string, value: number, limit: number, print: (value: number) => string): Figure => ({
    ...{ what: `  ${what}`, measured: print(value), target: atMost(value, limit, print) },
  });
  const milliseconds = (value: number) => `${value.toFixed(0)} ms`;
  const hundredths = (value: number) => value.toFixed(2);
  return [
    limited('writes for each target, Events included', perTarget, WRITES, hundredths),
    limited('writes for each leaf, Events included', perLeaf, WRITES, hundredths),
    {
      what: '  the most for a ConfigMap, a webhook configuration, a leaf',
      measured: most.join(', '),
    },
    limited('event loop delay of the leader, p99', delayMs, EVENT_LOOP_MS, milliseconds),
    { what: '  and the longest', measured: milliseconds(longestMs) },
    limited('longest response of /readyz', readyzMs, READYZ_MS, milliseconds),
    limited('reconciles of the authority per second', reconcileRate, RECONCILES_PER_SECOND, hundredths),
  ];
}

async function createTargets({ client }: ClusterProcess, replica: Replica): Promise<void> {
  await times(CONFIG_MAPS, (n) =>
    client.create(configMaps, {
      metadata: { namespace: namespaceOf(n), name: `trust-${n}`, annotations: ASKS },
    }),
  );
  await times(WEBHOOKS, (n) =>
    client.create(validatingWebhookConfigurations, {
      ...{ metadata: { name: `hook-${n}`, annotations: ASKS } },
      ...{ webhooks: [entry('one.example.com')] },
    }),
  );
  const current = (metrics: string, kind: string) =>
    sampleOf(metrics, `gatehouse_cabundle_targets{kind="${kind}",state="current"}`) ?? 0;
  await eventually(
    'every target has the bundle',
    async () => {
      const metrics = await replica.metrics();
      return (
        current(metrics, 'ConfigMap') >= CONFIG_MAPS &&
        current(metrics, 'ValidatingWebhookConfiguration') >= WEBHOOKS
      );
    },
    PATIENCE,
  );
}

interface Trust {
  /** The number of leaves; with an ID, of those that this generation signed. */
  readonly leaves: (signer?: string) => number;
  /** Whether this root, and no other, is in each bundle of the Secrets and ConfigMaps. */
  readonly isOnly: (id: string) => boolean;
  readonly stop: () => void;
}

/** Follows the leaves and bundles. A list would load the API server that is measured. */
function followTrust({ rest }: ClusterProcess): Trust {
  const stopping = new AbortController();
  const signers = new Map<string, string>();
  const bundles = new Map<string, string>();
  const context = { rest, rollbacks: { add: () => undefined }, namespaces: undefined, log };
  const note = (key: string, bundle: string) => bundles.set(key, rootIds(bundle).join());
  watch<SecretObject>(
    context,
    {
      resource: secrets,
      labelSelector: `${SERVING_CERT_LABEL.name}=${SERVING_CERT_LABEL.value}`,
      onChange: (key, { object: { data = {} } }) => {
        if (data['tls.crt'] === undefined) return;
        signers.set(key, issuerId(leafOf(decode(data['tls.crt']))));
        note(`secrets ${key}`, decode(data['ca.crt']));
      },
    },
    stopping.signal,
  );
  watch<SecretObject>(
    context,
    {
      resource: configMaps,
      onChange: (key, { object: { data } }) => {
        if (key.includes('/trust-')) note(`configmaps ${key}`, data?.['ca.crt'] ?? '');
      },
    },
    stopping.signal,
  );
  return {
    leaves: (signer) =>
      signer === undefined ? signers.size : [...signers.values()].filter((id) => id === signer).length,
    isOnly: (id) => [...bundles.values()].every((roots) => roots === id),
    stop: () => {
      stopping.abort();
    },
  };
}

const decode = (base64 = ''): string => Buffer.from(base64, 'base64').toString('utf8');

async function rotate({ client }: ClusterProcess, trust: Trust): Promise<void> {
  await client.patchMerge(secrets, AUTHORITY, { metadata: { annotations: { [ROTATE]: 'bench' } } }, {});
  const id = await eventually(
    'the new generation signs',
    async () => {
      const [newest, ...older] = (await authorityIn(client)).generations;
      return older.length > 0 && newest?.state === 'active' ? newest.id : undefined;
    },
    PATIENCE,
  );
  await eventually('every leaf is reissued', () => trust.leaves(id) === trust.leaves(), PATIENCE);
  await endTrust({ admin: client });
  await eventually('the old root is gone everywhere', () => trust.isOnly(id), PATIENCE);
}

async function authorityIn(client: ClusterProcess['client']): Promise<Authority> {
  const stored = await client.get<KubeObject & { data?: Record<string, string> }>(secrets, AUTHORITY);
  return parseAuthority(stored?.data ?? {});
}

const VERBS = new Set(['create', 'update', 'patch', 'delete']);
const TARGET = /^configmaps \S+\/trust-|^validatingwebhookconfigurations hook-/;
const LEAF = /^(secrets|services) \S+\/web-/;
/** The Events of the creation are still being written during the rotation. */
const OF_CREATION = new Set(['Issued', 'Injected']);

/** The writes of Gatehouse, also those that failed, from the audit log. */
async function writesSoFar(cluster: ClusterProcess): Promise<readonly AuditEvent[]> {
  await new Promise((resolve) => setTimeout(resolve, 3_000)); // the API server logs a request with a delay
  return (await cluster.audit()).filter(({ verb }) => VERBS.has(verb));
}

const countAbout = (writes: readonly AuditEvent[], which: RegExp): number =>
  writes.filter((write) => which.test(target(write))).length;

async function countEvents({ client }: ClusterProcess, about: RegExp): Promise<number> {
  const { items } = await client.listAll<EventObject>(events);
  return items.filter(
    ({ reason, involvedObject }) => !OF_CREATION.has(reason) && about.test(involvedObject.name),
  ).length;
}

const mostAbout = (writes: readonly AuditEvent[], which: RegExp): number =>
  Math.max(...Object.values(countByTarget(writes.filter((write) => which.test(target(write))))));

/** Each reading restarts the measurement of the event loop. */
async function readReplica(replica: Replica) {
  const metrics = await replica.metrics();
  const sample = (series: string) => sampleOf(metrics, series) ?? Number.NaN;
  return {
    reconciles: sample('workqueue_work_duration_seconds_count{name="authority"}'),
    delayMs: sample('nodejs_eventloop_lag_p99_seconds') * 1_000,
    longestMs: sample('nodejs_eventloop_lag_max_seconds') * 1_000,
  };
}

/** Measures what one rotation of the CA costs the leader, with many targets of the bundle and many serving certs. */
import { ROTATE } from '../../src/pki/annotations.ts';
import { configMaps, secrets } from '../../src/kube/well-known.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { parseAuthority } from '../../src/pki/authority/secret.ts';
import type { Replica } from '../../test/support/gatehouse.ts';
import { eventually } from '../../test/support/processes.ts';
import { createNamespaces, createServices } from './burst.ts';
import { startClusterProcess, type ClusterKind, type ClusterProcess } from './cluster-process.ts';
import { atMost, type Figure } from './figures.ts';
import { namespaces } from './objects.ts';

const TARGETS = 600;
const SERVICES = 100;
/** One reconcile per second, and some for the steps. */
const RECONCILES_PER_SECOND = 1.5;
const AUTHORITY = { namespace: 'gatehouse-system', name: 'gatehouse-authority' };

interface Data extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
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
    await createTargets(cluster);
    const before = await reconcilesOf(replica);
    const startedAt = performance.now();
    const probe = probeReadiness(replica);
    await cluster.client.patchMerge(
      secrets,
      AUTHORITY,
      { metadata: { annotations: { [ROTATE]: 'bench' } } },
      {},
    );
    await eventually('the new generation signs', () => isActivated(cluster), {
      timeoutMs: 300_000,
      everyMs: 500,
    });
    const seconds = (performance.now() - startedAt) / 1_000;
    const worstMs = await probe.stop();
    const reconciles = (await reconcilesOf(replica)) - before;
    await replica.program.stop(30_000);
    const rate = reconciles / seconds;
    return [
      {
        what: `rotation with ${TARGETS} ConfigMaps and ${SERVICES} Services, ${kind}: reconciles of the authority per second`,
        measured: `${rate.toFixed(2)} (${reconciles} in ${seconds.toFixed(0)} s)`,
        target: atMost(rate, RECONCILES_PER_SECOND, String),
      },
      { what: '  longest response of /readyz', measured: `${worstMs.toFixed(0)} ms` },
    ];
  } finally {
    await cluster.stop();
    delete process.env.GATEHOUSE_CA_PROPAGATION_WAIT;
  }
}

async function createTargets({ client }: ClusterProcess): Promise<void> {
  const [namespace = ''] = namespaces;
  const annotations = { 'gatehouse.dev/inject-cabundle': 'true' };
  for (let n = 0; n < TARGETS; n++)
    await client.create(configMaps, { metadata: { namespace, name: `trust-${n}`, annotations } });
  const last = { namespace, name: `trust-${TARGETS - 1}` };
  const isFilled = async () => (await client.get<Data>(configMaps, last))?.data?.['ca.crt'] !== undefined;
  await eventually('the last ConfigMap has the bundle', isFilled, { timeoutMs: 60_000 });
}

async function isActivated({ client }: ClusterProcess): Promise<boolean> {
  const stored = await client.get<Data>(secrets, AUTHORITY);
  const { generations } = parseAuthority(stored?.data ?? {});
  return generations.length === 2 && generations[0]?.state === 'active';
}

async function reconcilesOf(replica: Replica): Promise<number> {
  const line = /^workqueue_work_duration_seconds_count\{[^}]*name="authority"[^}]*\} (?<count>\d+)/m;
  return Number(line.exec(await replica.metrics())?.groups?.count ?? Number.NaN);
}

/** Asks repeatedly, and measures the longest response in milliseconds. */
function probeReadiness({ readyz }: Replica) {
  let worst = 0;
  let stopped = false;
  const run = async (): Promise<number> => {
    while (!stopped) {
      const startedAt = performance.now();
      await readyz();
      worst = Math.max(worst, performance.now() - startedAt);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return worst;
  };
  const running = run();
  return {
    stop: () => {
      stopped = true;
      return running;
    },
  };
}

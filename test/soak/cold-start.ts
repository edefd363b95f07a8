/** Measures the time from the start of a replica until it is ready, in a cluster with many objects. */
import { namespaces, services } from '../../src/kube/well-known.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { ADMISSION_POLICIES, startClusterFor, type Cluster } from '../support/cluster.ts';
import { startReplica } from '../support/gatehouse.ts';
import { eventually, freePort } from '../support/processes.ts';
import { isTrue, type Conditioned } from '../support/objects.ts';
import { createKinds, gadget, kindOf, policyOf, times } from './scene.ts';

export interface ColdStartOptions {
  readonly services: number;
  readonly objects: number;
  readonly policies: number;
  readonly kinds: number;
  readonly starts: number;
}

export type ColdStart = Awaited<ReturnType<typeof measureOne>>;

const NAMESPACES = 20;
const namespaceOf = (index: number): string => `team-${index % NAMESPACES}`;

export async function measureColdStarts(options: ColdStartOptions): Promise<readonly ColdStart[]> {
  const port = await freePort();
  const cluster = await startClusterFor(port);
  try {
    await fill(cluster, options);
    const first = await startReplica(cluster.plane, { name: 'first', port });
    await first.whenReady(300_000);
    await allInForce(cluster, options.policies);
    await first.program.stop(15_000);
    const starts: ColdStart[] = [];
    for (let index = 0; index < options.starts; index += 1)
      starts.push(await measureOne(cluster, port, `start-${index + 1}`));
    return starts;
  } finally {
    await cluster.stop();
  }
}

export async function fill(
  cluster: Cluster,
  { kinds, policies, ...counts }: ColdStartOptions,
): Promise<void> {
  const { admin } = cluster;
  await times(NAMESPACES, (index) => admin.create(namespaces, { metadata: { name: namespaceOf(index) } }));
  await createKinds(cluster, kinds);
  // Before the policies, because no replica runs yet that could judge the objects.
  await times(counts.objects, (index) =>
    admin.create(
      kindOf(index % kinds),
      gadget(index % kinds, namespaceOf(index), `object-${index}`, {
        serial: `serial-${index}`,
        size: index % 100,
        text: 'lorem ipsum '.repeat(40),
      }),
    ),
  );
  await times(counts.services, (index) => admin.create(services, serviceOf(index)));
  await times(policies, (index) =>
    admin.create(ADMISSION_POLICIES, policyOf(`policy-${index}`, index % kinds, kinds)),
  );
}

/** Headless: a cluster does not have enough cluster IPs. One in ten Services requests a serving certificate. */
function serviceOf(index: number): KubeObject & { readonly spec: object } {
  const name = `web-${index}`;
  const annotations = index % 10 === 0 ? { 'gatehouse.dev/serving-cert-secret-name': name } : {};
  return {
    metadata: { namespace: namespaceOf(index), name, annotations },
    spec: { clusterIP: 'None', ports: [{ port: 443 }] },
  };
}

export async function allInForce({ admin }: Cluster, count: number): Promise<void> {
  await eventually(
    'every policy is in force',
    async () => {
      const { items } = await admin.listAll<Conditioned>(ADMISSION_POLICIES);
      return items.filter((one) => isTrue('WebhooksInstalled')(one)).length === count;
    },
    { timeoutMs: 300_000, everyMs: 500 },
  );
}

async function measureOne({ plane }: Cluster, port: number, name: string) {
  const started = performance.now();
  const replica = await startReplica(plane, { name, port });
  try {
    await replica.whenReady(300_000);
    const readyMs = performance.now() - started;
    const metrics = await replica.metrics();
    return {
      readyMs,
      /** Other load on the machine affects it less than the wall-clock time. */
      cpuMs: sampleOf(metrics, 'process_cpu_seconds_total') * 1_000,
      resident: sampleOf(metrics, 'process_resident_memory_bytes'),
    };
  } finally {
    await replica.program.stop(30_000);
  }
}

const sampleOf = (metrics: string, series: string): number =>
  Number(new RegExp(`^${series} (\\S+)$`, 'm').exec(metrics)?.[1]);

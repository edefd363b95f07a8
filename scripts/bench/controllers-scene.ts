/** What the controllers of the benchmark work on: three kinds, who plays the kubelet, and an external service. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Condition, KubeObject } from '../../src/json/kube-object.ts';
import { systemClock } from '../../src/kube/clock.ts';
import type { Resource } from '../../src/kube/object.ts';
import { watchOnce } from '../../src/kube/watch.ts';
import type { Cluster } from '../../test/support/cluster.ts';
import { resourceOf } from '../../test/support/definitions.ts';

interface Benched extends KubeObject {
  readonly spec?: object;
  readonly status?: {
    readonly conditions?: readonly Condition[];
    readonly lastScheduleTime?: string;
    readonly active?: readonly object[];
  };
}

export interface Scenario {
  readonly name: 'memcacheds' | 'buckets' | 'cronjobs';
  readonly what: string;
  readonly resource: Resource;
  /** Of the objects that a controller creates. */
  readonly children?: Resource;
  /** @param due when schedules are due */
  readonly spec: (due: Date) => object;
  readonly isDone: (object: Benched) => boolean;
}

const hasCondition =
  (wanted: string) =>
  ({ status }: Benched): boolean =>
    status?.conditions?.some(({ type, status: is }) => type === wanted && is === 'True') ?? false;

const DEPLOYMENTS = resourceOf('apps', 'deployments', 'Deployment');
const JOBS = resourceOf('batch', 'jobs', 'Job');
const container = { name: 'hello', image: 'busybox:1.28', command: ['/bin/sh', '-c', 'date'] };

export const SCENARIOS: readonly Scenario[] = [
  {
    name: 'memcacheds',
    what: 'Memcached: a Deployment',
    resource: resourceOf('cache.example.com', 'memcacheds', 'Memcached'),
    children: DEPLOYMENTS,
    spec: () => ({ size: 2, port: 11_211 }),
    isDone: hasCondition('Available'),
  },
  {
    name: 'buckets',
    what: 'bucket: a finalizer and an HTTP service',
    resource: resourceOf('storage.example.com', 'buckets', 'Bucket'),
    spec: () => ({ region: 'eu' }),
    isDone: hasCondition('Ready'),
  },
  {
    name: 'cronjobs',
    what: 'CronJob: a Job at the same minute',
    resource: resourceOf('batch.tutorial.kubebuilder.io', 'cronjobs', 'CronJob'),
    children: JOBS,
    spec: (due) => ({
      schedule: `${due.getUTCMinutes()} ${due.getUTCHours()} ${due.getUTCDate()} ${due.getUTCMonth() + 1} *`,
      jobTemplate: { spec: { template: { spec: { restartPolicy: 'OnFailure', containers: [container] } } } },
    }),
    isDone: ({ status }) => status?.lastScheduleTime !== undefined && (status.active ?? []).length === 0,
  },
];

type Api = Pick<Cluster, 'admin' | 'adminRest'>;

/** Each state of each object, also if the API server ends the watch because this process reads too slowly. */
async function* statesOf({ admin, adminRest }: Api, resource: Resource, signal: AbortSignal) {
  const timing = { minSeconds: 3_600, maxSeconds: 3_600, marginMs: 60_000, silenceMs: 300_000 };
  while (!signal.aborted) {
    const { items, metadata } = await admin.list(resource);
    yield* items.map((item): KubeObject => ({ kind: resource.kind, ...item }));
    const since = metadata.resourceVersion ?? '0';
    const events = watchOnce(adminRest, { resource }, since, timing, systemClock, Math.random, signal);
    for await (const event of events) if (event.kind === 'set') yield event.object;
  }
}

/** Sets the status of each Deployment or Job at once, as if its pods ran. */
export async function startKubelet(api: Api, resource: Resource, signal: AbortSignal): Promise<void> {
  const seen = new Set<string>();
  for await (const object of statesOf(api, resource, signal)) {
    const { metadata } = object as KubeObject & { metadata: { name: string; namespace: string } };
    const key = `${metadata.uid ?? ''}/${metadata.generation ?? ''}`;
    if (seen.has(key)) continue;
    seen.add(key);
    // A failure ends the benchmark.
    void api.admin.patchStatus(resource, metadata, { status: statusOf(object) });
  }
}

function statusOf({ kind, metadata, spec }: KubeObject & { readonly spec?: { readonly replicas?: number } }) {
  if (kind === 'Deployment') {
    const replicas = spec?.replicas ?? 1;
    const { generation: observedGeneration } = metadata ?? {};
    return {
      observedGeneration,
      replicas,
      updatedReplicas: replicas,
      readyReplicas: replicas,
      availableReplicas: replicas,
    };
  }
  const time = new Date().toISOString().replace(/\.\d+/, '');
  const isTrue = { status: 'True', lastTransitionTime: time, reason: 'CompletionsReached' };
  const conditions = ['SuccessCriteriaMet', 'Complete'].map((type) => ({ type, ...isTrue }));
  return { startTime: time, completionTime: time, succeeded: 1, conditions };
}

/** Answers each request with 200 and no content. */
export async function startService() {
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(200).end());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

const AT_ONCE = 16;

export async function createObjects(
  { admin }: Pick<Cluster, 'admin'>,
  { resource, spec }: Scenario,
  count: number,
  due: Date,
): Promise<void> {
  let next = 0;
  const work = async () => {
    for (let index = next++; index < count; index = next++)
      await admin.create(resource, {
        metadata: { name: `bench-${index}`, namespace: 'default' },
        spec: spec(due),
      } as KubeObject);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

/** Resolves when all objects are done. It watches, so that it costs the API server the same whoever is measured. */
export async function untilDone(
  api: Api,
  { resource, isDone }: Scenario,
  count: number,
  signal: AbortSignal,
): Promise<void> {
  const done = new Set<string>();
  for await (const object of statesOf(api, resource, signal)) {
    const name = object.metadata?.name ?? '';
    if (isDone(object)) done.add(name);
    else done.delete(name);
    if (done.size === count) return;
  }
  throw new Error(`${done.size} of ${count} ${resource.resource} are done`);
}

export const pause = sleep;

/** What `guarantee: Serializable` adds to a write of a real API server that adds a reference. */
import { join } from 'node:path';

import { readManifests } from '../../src/cli/deploy-manifests.ts';
import { DATACENTERS, datacenter, server, SERVERS } from '../../src/cli/sandbox/tour-objects.ts';
import { ApiError } from '../../src/kube/api-error.ts';
import { GATEHOUSE_GROUP, type AuditEvent } from '../../test/support/control-plane.ts';
import { serversPolicy } from '../../test/support/objects.ts';
import { eventually } from '../../test/support/processes.ts';
import { startClusterProcess, type ClusterProcess } from './cluster-process.ts';
import { atMost, percentile, playBatches, type Figure } from './figures.ts';
import { apply } from './restore-scene.ts';

const EXAMPLES = join(import.meta.dirname, '..', '..', 'deploy', 'examples');
const BATCHES = { warmUp: 60, batches: 10, batch: 40 };
const TARGETS = 10;
const MOST = 1.5;

const CASES = ['none', 'BestEffort', 'Serializable'] as const;
type Case = (typeof CASES)[number];
const namespaceOf = (kind: Case): string => `bench-${kind.toLowerCase()}`;

export async function measureReferences(): Promise<readonly Figure[]> {
  const cluster = await startClusterProcess('kube-apiserver');
  try {
    await apply(
      cluster,
      ...readManifests(EXAMPLES).filter(({ kind }) => kind !== 'AdmissionPolicy'),
      binding,
    );
    const replica = await cluster.startReplica('one');
    await replica.whenReady(60_000);
    await enforce(cluster);
    const figures = await play(cluster);
    await replica.program.stop(30_000);
    return [...figures, ...partsOf(await cluster.audit())];
  } finally {
    await cluster.stop();
  }
}

/** Without the controller manager, nothing fills aggregated ClusterRoles. */
const binding = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRoleBinding',
  metadata: { name: 'bench-references' },
  ...{
    roleRef: {
      apiGroup: 'rbac.authorization.k8s.io',
      kind: 'ClusterRole',
      name: 'gatehouse-references-infra',
    },
    subjects: [GATEHOUSE_GROUP],
  },
};

async function enforce(cluster: ClusterProcess): Promise<void> {
  for (const kind of CASES)
    await apply(cluster, {
      ...{ apiVersion: 'v1', kind: 'Namespace' },
      metadata: { name: namespaceOf(kind), labels: { bench: kind } },
    });
  await eventually('Datacenters are served', async () => {
    await cluster.client.list(DATACENTERS, { limit: 1 });
    return true;
  });
  for (let index = 0; index < TARGETS; index += 1)
    await cluster.client.create(DATACENTERS, datacenter(`dc-${index}`));
  for (const guarantee of ['BestEffort', 'Serializable'] as const) {
    await apply(cluster, referencesWith(guarantee));
    await eventually(
      `the policy with ${guarantee}`,
      () =>
        cluster.client
          .create(SERVERS, server(namespaceOf(guarantee), 'probe', 'nowhere'), { dryRun: true })
          .then(() => false)
          .catch((error: unknown) => error instanceof ApiError && error.message.includes('spec.datacenter')),
      { timeoutMs: 60_000 },
    );
  }
}

function referencesWith(guarantee: 'BestEffort' | 'Serializable') {
  const { resource, group } = DATACENTERS;
  return serversPolicy(guarantee.toLowerCase(), {
    match: {
      ...{ apiGroups: [SERVERS.group], apiVersions: [SERVERS.version], resources: [SERVERS.resource] },
      namespaceSelector: { matchLabels: { bench: guarantee } },
    },
    validate: {
      references: [
        {
          ...{ name: 'datacenter', path: 'spec.datacenter', onTargetDelete: 'Restrict', guarantee },
          target: { apiGroup: group, resource },
        },
      ],
    },
  });
}

/** The calls of Gatehouse for one write, as the API server times them. */
const CALLS = [
  ['create', 'uniqueclaims', 'a write of an intent'],
  ['get', 'uniqueclaims', 'a read of an intent'],
  ['get', 'datacenters', 'a read of a target'],
] as const;

const partsOf = (events: readonly AuditEvent[]): readonly Figure[] =>
  CALLS.map(([verb, resource, what]) => {
    const times = events
      .filter((event) => event.verb === verb && event.objectRef?.resource === resource)
      .map((event) => milliseconds(event.stageTimestamp) - milliseconds(event.requestReceivedTimestamp));
    return { what: `    ${what}`, measured: times.length === 0 ? 'none' : ms(percentile(times, 0.5)) };
  });

/** Of a time with microseconds. */
function milliseconds(time = ''): number {
  const [seconds = '', fraction = ''] = time.replace('Z', '').split('.');
  return Date.parse(`${seconds}Z`) + Number(`0.${fraction}`) * 1_000;
}

const ms = (value: number): string => `${value.toFixed(1)} ms`;
const ratio = (value: number): string => `${value.toFixed(2)} times`;

async function play({ client, version }: ClusterProcess): Promise<readonly Figure[]> {
  const typical = await playBatches(CASES, BATCHES, (kind, round) =>
    client.create(SERVERS, server(namespaceOf(kind), `server-${round}`, `dc-${round % TARGETS}`)),
  );
  const time = (kind: Case) => ms(typical((at) => at(kind, 0.5)));
  const share = typical((at) => at('Serializable', 0.5) / at('BestEffort', 0.5));
  return [
    { what: `create of an object without a policy, kube-apiserver ${version}: p50`, measured: time('none') },
    { what: '  with a reference', measured: time('BestEffort') },
    {
      what: '  with a reference and guarantee: Serializable',
      measured: `${time('Serializable')} (${ratio(share)})`,
      target: atMost(share, MOST, ratio),
    },
  ];
}

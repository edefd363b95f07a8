/**
 * A cluster whose replicas run behind the fault harness: it can disturb their API requests and the API server's webhook
 * calls.
 */
import type { KubeObject } from '../../../src/json/kube-object.ts';
import { startApiProxy, type ApiProxy } from '../api-proxy.ts';
import { startBalancer } from '../balancer.ts';
import { startClusterFor, type Cluster } from '../cluster.ts';
import { enforceExamples, seeInForce, untilRefused } from '../gatehouse-cluster.ts';
import { startReplica, type Replica } from '../gatehouse.ts';
import { SERVERS } from '../cluster.ts';
import { apiServerOf, kubeconfigsThrough, startTcpFaults, type TcpFaults } from './tcp.ts';

export interface FaultScene {
  readonly cluster: Cluster;
  readonly replicas: readonly Replica[];
  /** Faults of the replicas' requests and watches. */
  readonly api: ApiProxy;
  /** Faults of the connections below `api`. */
  readonly apiTcp: TcpFaults;
  /** Faults of the API server's connections to the replicas. */
  readonly webhookTcp: TcpFaults;
  /** Ends every fault. */
  readonly repair: () => void;
  readonly stop: () => Promise<void>;
}

export interface FaultSceneOptions {
  readonly replicas: readonly string[];
  readonly seed?: number;
}

/**
 * Resolves when the examples and the policy `serials` are in force, with the datacenter `fra1` and the namespace
 * `shop`.
 */
export async function startFaultScene({ replicas: names, seed = 1 }: FaultSceneOptions): Promise<FaultScene> {
  const balancer = await startBalancer();
  const webhookTcp = await startTcpFaults({ target: { host: '127.0.0.1', port: balancer.port }, seed });
  const cluster = await startClusterFor(webhookTcp.port);
  const api = await startApiProxy(cluster.plane, 'faulty');
  const apiTcp = await startTcpFaults({ target: apiServerOf(api.endpoint), seed });
  const plane = {
    kubeconfig: kubeconfigsThrough(api.endpoint, 'faulty', apiTcp.port),
    folder: cluster.plane.folder,
  };
  const replicas = await Promise.all(
    names.map((name) => startReplica(plane, { name, servicePort: webhookTcp.port, settings: QUICK })),
  );
  balancer.setBackends(replicas.map(({ port }) => port));
  const repair = () => {
    api.disturb(undefined);
    apiTcp.repair();
    webhookTcp.repair();
  };
  const stop = async () => {
    repair();
    await Promise.all(replicas.map(({ program }) => program.stop(15_000)));
    await apiTcp.stop();
    await api.stop();
    await webhookTcp.stop();
    await balancer.stop();
    await cluster.stop();
  };
  try {
    await Promise.all(replicas.map((replica) => replica.whenReady()));
    await enforceExamples(cluster);
    await cluster.apply(SERIALS);
    await seeInForce(cluster, 'serials');
    await cluster.admin.create(SERVERS, serverWith('fra1', { name: 'first', serial: 'TAKEN' }));
    await untilRefused('a second TAKEN', 'spec.serial', () =>
      cluster.admin.create(SERVERS, serverWith('fra1', { name: 'second', serial: 'TAKEN' }), {
        dryRun: true,
      }),
    );
  } catch (error) {
    await stop();
    throw error;
  }
  return { cluster, replicas, api, apiTcp, webhookTcp, repair, stop };
}

/** An orphaned claim expires soon, and another replica soon replaces a lost leader. */
const QUICK = {
  'unique-settle': '3s',
  'lease-duration': '6s',
  'renew-deadline': '4s',
  'retry-period': '1s',
} as const;

/** Serials of Servers are unique. */
const SERIALS = {
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'AdmissionPolicy',
  metadata: { name: 'serials' },
  spec: {
    match: { apiGroups: ['infra.example.com'], apiVersions: ['v1'], resources: ['servers'] },
    validate: { unique: [{ name: 'serial', paths: ['spec.serial'] }] },
  },
} as KubeObject;

/** Denies Servers with this label. */
export const labelPolicy = (name: string, label: string): KubeObject =>
  ({
    apiVersion: 'gatehouse.dev/v1alpha1',
    kind: 'AdmissionPolicy',
    metadata: { name },
    spec: {
      match: { apiGroups: ['infra.example.com'], apiVersions: ['v1'], resources: ['servers'] },
      validate: {
        rules: [
          {
            name: 'unlabelled',
            expression: `!has(object.metadata.labels) || !('${label}' in object.metadata.labels)`,
            message: `${label} is forbidden`,
          },
        ],
      },
    },
  }) as KubeObject;

export interface ServerParts {
  readonly name: string;
  readonly serial?: string;
  readonly label?: string;
}

export const serverWith = (datacenter: string, { name, serial, label }: ServerParts): KubeObject =>
  ({
    apiVersion: 'infra.example.com/v1',
    kind: 'Server',
    metadata: { namespace: 'shop', name, ...(label === undefined ? {} : { labels: { [label]: 'yes' } }) },
    spec: { datacenter, ...(serial === undefined ? {} : { serial }) },
  }) as KubeObject;

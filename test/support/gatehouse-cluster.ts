/** A cluster with one replica of Gatehouse, and its examples in force: where most tests begin. */
import { ApiError } from '../../src/kube/api-error.ts';
import {
  ADMISSION_POLICIES,
  applyExamples,
  createNamespace,
  DATACENTERS,
  SERVERS,
  startClusterFor,
  type Cluster,
} from './cluster.ts';
import type { ControlPlaneOptions } from './control-plane.ts';
import { startReplica, type Replica, type ReplicaOptions } from './gatehouse.ts';
import { datacenter, isTrue, server, type Conditioned } from './objects.ts';
import { eventually, freePort } from './processes.ts';

interface GatehouseOptions extends ControlPlaneOptions, Pick<ReplicaOptions, 'settings'> {
  /** What is to be there before the replica runs. */
  readonly prepare?: (cluster: Cluster) => Promise<unknown>;
}

/** Resolves when the replica `one` is ready; what the Service of Gatehouse leads to is its own port. */
export async function startGatehouse({
  settings = {},
  prepare = () => Promise.resolve(),
  ...options
}: GatehouseOptions = {}): Promise<{ readonly cluster: Cluster; readonly replica: Replica }> {
  const port = await freePort();
  const cluster = await startClusterFor(port, options);
  await prepare(cluster);
  const replica = await startReplica(cluster.plane, { name: 'one', port, settings });
  await replica.whenReady();
  return { cluster, replica };
}

/** Applies the examples, with the datacenter `fra1` and the namespace `shop`. Resolves when the API server asks about Servers. */
export async function enforceExamples(cluster: Cluster): Promise<void> {
  await applyExamples(cluster);
  await seeInForce(cluster, 'servers');
  await cluster.admin.create(DATACENTERS, datacenter('fra1'));
  await createNamespace(cluster, 'shop');
  await untilRefused('a Server without its datacenter', 'spec.datacenter', () =>
    cluster.admin.create(SERVERS, server('shop', 'probe', 'nowhere'), { dryRun: true }),
  );
}

/** Until Gatehouse has installed the policy; the API server learns of that by a watch of its own. */
export const seeInForce = (cluster: Cluster, policy: string): Promise<Conditioned> =>
  cluster.see<Conditioned>(
    `the policy ${policy} in force`,
    ADMISSION_POLICIES,
    { name: policy },
    (object) => isTrue('Ready')(object) && isTrue('WebhooksInstalled')(object),
    30_000,
  );

/** Until the API server refuses this with a message that holds `why`. `attempt` leaves nothing behind. */
export const untilRefused = (what: string, why: string, attempt: () => Promise<unknown>): Promise<true> =>
  eventually(`${what} is refused`, () =>
    attempt().then(
      () => false as const,
      (error: unknown) => {
        if (error instanceof ApiError && error.message.includes(why)) return true as const;
        throw error;
      },
    ),
  );

/** The error with which the API server refuses. @throws Error when it does not refuse */
export async function refusal(attempt: Promise<unknown>): Promise<ApiError> {
  try {
    await attempt;
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error('it was not refused');
}

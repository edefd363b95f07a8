/** A cluster whose replica runs behind the fault harness. */
import type { KubeObject } from '../../../src/json/kube-object.ts';
import { startApiProxy } from '../api-proxy.ts';
import { startBalancer } from '../balancer.ts';
import { type Cluster, SERVERS, startClusterFor } from '../cluster.ts';
import { enforceExamples, seeInForce, untilRefused } from '../gatehouse-cluster.ts';
import { startReplica } from '../gatehouse.ts';
import { startTcpFaults } from './tcp.ts';
import { ApiError, NetworkError } from '../../../src/kube/api-error.ts';
import { server, serversPolicy } from '../objects.ts';

export type FaultScene = Awaited<ReturnType<typeof startFaultScene>>;

/** Resolves when the examples and the policy `serials` are in force, with `fra1` and the namespace `shop`. */
export async function startFaultScene() {
  const balancer = await startBalancer();
  const webhookTcp = await startTcpFaults({ host: '127.0.0.1', port: balancer.port });
  const cluster = await startClusterFor(webhookTcp.port);
  const api = await startApiProxy(cluster.plane, 'faulty');
  const plane = { kubeconfig: api.kubeconfig, folder: cluster.plane.folder };
  const replica = await startReplica(plane, {
    name: 'one',
    servicePort: webhookTcp.port,
    settings: QUICK,
  });
  balancer.setBackends([replica.port]);
  const repair = () => {
    api.disturb(undefined);
    webhookTcp.repair();
  };
  const stop = async () => {
    repair();
    await replica.program.stop(15_000);
    await api.stop();
    await webhookTcp.stop();
    await balancer.stop();
    await cluster.stop();
  };
  try {
    await replica.whenReady();
    await enforceExamples(cluster);
    await cluster.apply(SERIALS);
    await seeInForce(cluster, 'serials');
    await cluster.admin.create(SERVERS, serverWith('fra1', { name: 'first', serial: 'TAKEN' }));
    const second = serverWith('fra1', { name: 'second', serial: 'TAKEN' });
    await untilRefused('a second TAKEN', 'spec.serial', () =>
      cluster.admin.create(SERVERS, second, { dryRun: true }),
    );
  } catch (error) {
    await stop();
    throw error;
  }
  return { cluster, replica, api, webhookTcp, repair, stop };
}

/** An orphaned claim expires soon, and another replica soon replaces a lost leader. */
const QUICK = {
  'unique-settle': '3s',
  'lease-duration': '6s',
  'renew-deadline': '4s',
  'retry-period': '1s',
} as const;

const SERIALS = serversPolicy('serials', {
  validate: { unique: [{ name: 'serial', paths: ['spec.serial'] }] },
});

export interface ServerParts {
  readonly name: string;
  readonly serial?: string;
}

export function serverWith(datacenter: string, { name, serial }: ServerParts): KubeObject {
  const { spec, ...rest } = server('shop', name, datacenter);
  return { ...rest, ...{ spec: { ...spec, ...(serial === undefined ? {} : { serial }) } } };
}

export type Verdict =
  | { readonly kind: 'allowed' }
  | { readonly kind: 'refused'; readonly message: string }
  /** There was no decision: the API server could not reach the webhook, or the webhook could not decide. */
  | { readonly kind: 'failed'; readonly message: string };

/** Status codes of a denial by Gatehouse, as opposed to a failure: 403, or 422 if the denial names fields. */
const REFUSALS = new Set([403, 422]);

export async function verdictOn(
  cluster: Cluster,
  server: KubeObject,
  { dryRun = true, timeoutMs = 15_000 }: { readonly dryRun?: boolean; readonly timeoutMs?: number } = {},
): Promise<Verdict> {
  try {
    await cluster.admin.create(SERVERS, server, { dryRun, timeoutMs });
    return { kind: 'allowed' };
  } catch (error) {
    if (error instanceof NetworkError) return { kind: 'failed', message: error.message };
    if (!(error instanceof ApiError)) throw error;
    const { code, message } = error;
    return REFUSALS.has(code) ? { kind: 'refused', message } : { kind: 'failed', message };
  }
}

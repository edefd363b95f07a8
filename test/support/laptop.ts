/** `gatehouse serve --dev-url` as a developer runs it, as a cluster admin. */
import { configMaps } from '../../src/kube/well-known.ts';
import type { Cluster } from './cluster.ts';
import { untilRefused } from './gatehouse-cluster.ts';
import { startReplica, type Replica } from './gatehouse.ts';
import { eventually, freePort, tail } from './processes.ts';

interface LaptopOptions {
  readonly name: string;
  readonly handlers: string;
  readonly host?: string;
  readonly port?: number;
}

export async function startLaptop(
  { plane }: Pick<Cluster, 'plane'>,
  { name, handlers, host = '127.0.0.1', port: wanted }: LaptopOptions,
): Promise<Replica> {
  const port = wanted ?? (await freePort());
  return await startReplica(plane, {
    name,
    port,
    settings: { kubeconfig: plane.kubeconfig('admin'), 'dev-url': `https://${host}:${port}`, handlers },
  });
}

export const sendConfigMap = ({ admin }: Pick<Cluster, 'admin'>, handler: string) =>
  admin.create(
    configMaps,
    { metadata: { namespace: 'shop', name: 'probe', labels: { case: handler } } },
    { dryRun: true },
  );

export const untilHandlerSays = (cluster: Pick<Cluster, 'admin'>, handler: string, why: string) =>
  untilRefused(`a ConfigMap for ${handler}`, why, () => sendConfigMap(cluster, handler));

export const untilLaptopSays = (
  laptop: Replica,
  cluster: Pick<Cluster, 'admin'>,
  handler: string,
  why: string,
) =>
  eventually(`${laptop.name} decides`, async () => {
    if (!laptop.program.isRunning()) throw new Error(tail(laptop.program.logFile));
    return await untilHandlerSays(cluster, handler, why);
  });

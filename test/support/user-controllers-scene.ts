/** The controllers of the examples, and their cloud. */
import { execFile } from 'node:child_process';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { startFakeCloud } from '../../deploy/examples/machines/fake-cloud.ts';
import type { Condition, KubeObject } from '../../src/json/kube-object.ts';
import { established, startClusterFor, type Cluster } from './cluster.ts';
import { resourceOf } from './definitions.ts';
import { parseManifests } from './kustomization.ts';
import { MAIN } from './main-module.ts';

const EXAMPLES = join(import.meta.dirname, '..', '..', 'deploy', 'examples');
const run = promisify(execFile);

export const USERS = resourceOf('people.example.com', 'users', 'User', false);
export const MACHINES = resourceOf('cloud.example.com', 'machines', 'Machine');
export const QUOTAS = resourceOf('', 'resourcequotas', 'ResourceQuota');

export type Reconciled = KubeObject & {
  readonly status?: {
    readonly observedGeneration?: number;
    readonly conditions?: readonly Condition[];
    readonly machineId?: string;
    readonly progress?: object;
  };
};

export const conditionOf = ({ status }: Reconciled, type: string) =>
  status?.conditions?.find((condition) => condition.type === type);

export const isReady = (object: Reconciled): boolean =>
  object.status?.observedGeneration === object.metadata?.generation &&
  conditionOf(object, 'Ready')?.status === 'True';

export type ControllerScene = Awaited<ReturnType<typeof startControllerScene>>;

/** @param names of the examples whose controllers run. `prepare` adds other controllers and their kinds. */
export async function startControllerScene(
  servicePort: number,
  names: readonly ('users' | 'machines')[],
  prepare: (cluster: Cluster, folder: string) => Promise<void> = () => Promise.resolve(),
) {
  const cluster = await startClusterFor(servicePort);
  const folder = join(cluster.plane.folder, 'controllers');
  for (const name of names) {
    cpSync(join(EXAMPLES, name, 'controllers'), folder, { recursive: true });
    await cluster.applyFolder(`examples/${name}`, ({ kind }) => kind === 'CustomResourceDefinition');
  }
  await Promise.all(
    [USERS, MACHINES]
      .filter(({ resource }) => names.some((name) => name === resource))
      .map(({ resource, group }) => established(cluster, `${resource}.${group}`)),
  );
  await prepare(cluster, folder);
  await allow(cluster, folder);
  const cloud = await startFakeCloud();
  return {
    cluster,
    cloud,
    folder,
    env: { CLOUD_URL: cloud.url },
    stop: async () => {
      await cloud.stop();
      await cluster.stop();
    },
  };
}

async function allow(cluster: Cluster, folder: string): Promise<void> {
  const { stdout } = await run(process.execPath, [MAIN, 'manifests', '--handlers', folder]);
  await cluster.apply(...parseManifests(stdout));
}

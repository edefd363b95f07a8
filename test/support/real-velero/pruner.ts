/** A controller that deletes Applications whose Zone does not exist: correct, but not while a restore is going on. */
import { setTimeout as sleep } from 'node:timers/promises';

import type { KubeObject } from '../../../src/json/kube-object.ts';
import { deployments, pods } from '../../../src/kube/well-known.ts';
import { createNamespace, type Cluster } from '../cluster.ts';
import { eventually } from '../processes.ts';
import { APPLICATIONS, ZONES, type Application } from '../restore-kinds.ts';

const NAMESPACE = 'ops';
const NAME = 'pruner';
const labels = { app: NAME };
const PASS_MS = 50;

interface Deployment extends KubeObject {
  readonly spec: { readonly replicas?: number };
}

/** The test plays the container of the Pod: the controller works exactly while there is a Pod. */
export async function startPruner(cluster: Cluster, watched: string) {
  const { admin } = cluster;
  const template = {
    metadata: { labels },
    spec: { containers: [{ name: NAME, image: 'registry.example.com/pruner' }] },
  };
  await createNamespace(cluster, NAMESPACE);
  await admin.create<KubeObject>(deployments, {
    metadata: { namespace: NAMESPACE, name: NAME, labels },
    spec: { replicas: 1, selector: { matchLabels: labels }, template },
  } as Deployment);
  const running = async () => {
    const { items } = await admin.listAll(pods, { namespace: NAMESPACE, labelSelector: `app=${NAME}` });
    return items.filter(({ metadata }) => metadata?.deletionTimestamp === undefined).length;
  };
  const prune = async () => {
    const [zones, apps] = await Promise.all([
      admin.listAll(ZONES),
      admin.listAll<Application>(APPLICATIONS, { namespace: watched }),
    ]);
    const names = new Set(zones.items.map(({ metadata }) => metadata?.name));
    const orphans = apps.items.filter(({ spec }) => spec.zone !== undefined && !names.has(spec.zone));
    for (const { metadata: { namespace, name = '' } = {} } of orphans)
      await admin.delete(APPLICATIONS, { namespace, name });
  };
  let isStopped = false;
  const work = async () => {
    while (!isStopped) {
      if ((await running()) > 0) await prune();
      await sleep(PASS_MS);
    }
  };
  const working = work();
  return {
    quiesce: { apiGroup: 'apps', resource: 'deployments', matchLabels: labels },
    replicas: async () =>
      (await admin.get<Deployment>(deployments, { namespace: NAMESPACE, name: NAME }))?.spec.replicas,
    untilPods: (count: number) =>
      eventually(`${count} Pods of the controller`, async () => (await running()) === count),
    stop: async () => {
      isStopped = true;
      await working;
    },
  };
}

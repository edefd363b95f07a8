/** How long Gatehouse takes to pause workloads, and to restore them. */
import { parseAllDocuments } from 'yaml';

import type { RestoreWindow } from '../../src/api/restore-window.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { deployments } from '../../src/kube/well-known.ts';
import { RESTORE_WINDOWS } from '../../src/runtime/resources.ts';
import { permissionsFor } from '../../src/runtime/restores/quiesce/permissions.ts';
import { eventually } from '../../test/support/processes.ts';
import type { ClusterProcess } from './cluster-process.ts';
import { atMost, type Figure } from './figures.ts';
import { apply, namespaceFor } from './restore-scene.ts';

const WORKLOADS = 200;
const LONGEST_MS = 10_000;
const NAME = 'bench-quiesce';
const labels = { bench: 'quiesce' };

/** Needs a ready replica and the namespaces of the bench. */
export async function quiesceFigures(cluster: ClusterProcess): Promise<readonly Figure[]> {
  const { client } = cluster;
  const printed = permissionsFor([{ group: 'apps', resource: 'deployments' }], cluster.leader);
  const role = parseAllDocuments(printed.slice(printed.indexOf('apiVersion')));
  await apply(cluster, ...role.map((document) => document.toJS() as KubeObject));
  for (let index = 0; index < WORKLOADS; index += 1) await client.create(deployments, deployment(index));
  const window: RestoreWindow = {
    metadata: { name: NAME },
    spec: {
      principals: [{ user: 'bench' }],
      expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
      quiesce: [{ apiGroup: 'apps', resource: 'deployments', matchLabels: labels }],
    },
  };
  const began = performance.now();
  await client.create(RESTORE_WINDOWS, window);
  await untilQuiesced(cluster, 'Paused');
  const took = performance.now() - began;
  await client.patchMerge(RESTORE_WINDOWS, { name: NAME }, { spec: { close: true } });
  await untilQuiesced(cluster, 'Undone');
  return [
    {
      what: `pause of ${WORKLOADS} workloads`,
      measured: `${(took / 1_000).toFixed(2)} s`,
      target: atMost(took, LONGEST_MS, (ms) => `${ms / 1_000} s`),
    },
  ];
}

const untilQuiesced = ({ client }: ClusterProcess, reason: string) =>
  eventually(
    `the workloads are ${reason}`,
    async () => {
      const found = await client.get<RestoreWindow>(RESTORE_WINDOWS, { name: NAME });
      return (
        found?.status?.conditions?.some((one) => one.type === 'Quiesced' && one.reason === reason) === true
      );
    },
    { timeoutMs: 120_000, everyMs: 50 },
  );

function deployment(index: number): KubeObject & { readonly spec: object } {
  const name = `workload-${index}`;
  return {
    metadata: { namespace: namespaceFor(index), name, labels },
    spec: {
      replicas: 3,
      selector: { matchLabels: { app: name } },
      template: {
        metadata: { labels: { app: name } },
        spec: { containers: [{ name: 'app', image: 'registry.example.com/app' }] },
      },
    },
  };
}

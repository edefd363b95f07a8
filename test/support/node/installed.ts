/** A node with Gatehouse in its pods, installed as users do. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { programFolder } from '../go-programs.ts';
import { eventually } from '../processes.ts';
export { withKustomization } from '../kustomization.ts';
import { GOVERNED_NAMESPACE, GOVERNING_POLICY } from './governed-load.ts';
import type { NodeOptions } from './node-files.ts';
import { startNode, type NodeCluster } from './node.ts';
import { imageArchives, NODE_PREFIX } from './setup.ts';

export const SYSTEM = 'gatehouse-system';

/** A new node with all images. The folder goes with it. */
export async function startPodNode(options: NodeOptions = {}): Promise<NodeCluster> {
  const controlPlane = await programFolder('newest');
  const node = await programFolder('node');
  const folder = mkdtempSync(join(tmpdir(), NODE_PREFIX));
  return await startNode(folder, { controlPlane, node }, imageArchives(), options);
}

/** `kubectl apply` with the words of a user, such as `-k deploy`. Resolves when every Deployment is rolled out. */
export async function applyAndWait(node: NodeCluster, ...words: readonly string[]): Promise<number> {
  const from = performance.now();
  await node.kubectl('apply', ...words);
  await rolledOut(node);
  return (performance.now() - from) / 1_000;
}

export async function rolledOut(node: NodeCluster): Promise<void> {
  const names = await node.kubectl('-n', SYSTEM, 'get', 'deployments', '-o', 'name');
  for (const name of names.split('\n').filter((line) => line !== ''))
    await node.kubectl('-n', SYSTEM, 'rollout', 'status', name, '--timeout=110s');
}

/** Removes Gatehouse by force, so that a failed test does not fail those after it. */
export async function wipe(node: NodeCluster): Promise<void> {
  const gone = ['--ignore-not-found', '--wait=false', '-l', 'app.kubernetes.io/part-of=gatehouse'];
  await node.kubectl('delete', 'mutatingwebhookconfigurations,validatingwebhookconfigurations', ...gone);
  const policies = 'validatingadmissionpolicies,validatingadmissionpolicybindings';
  await node.kubectl('delete', `clusterroles,clusterrolebindings,${policies}`, ...gone);
  await node.kubectl('delete', 'namespaces', '--ignore-not-found', SYSTEM, GOVERNED_NAMESPACE);
  const waiting = gone.filter((flag) => flag !== '--wait=false');
  await node.kubectl('delete', 'customresourcedefinitions', ...waiting);
}

/** Applies the policy of docs/installing.md, and waits until the API server asks Gatehouse. */
export async function govern(node: NodeCluster): Promise<void> {
  await node.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: GOVERNED_NAMESPACE } });
  // Its kind may be a second old.
  await eventually('the policy is accepted', async () => {
    await node.apply(GOVERNING_POLICY);
    return true;
  });
  await refuses(node);
}

export async function refuses(node: NodeCluster, timeoutMs = 60_000): Promise<void> {
  const create = ['-n', GOVERNED_NAMESPACE, 'create', 'configmap', 'no-owner', '--dry-run=server'];
  await eventually(
    'the policy refuses',
    async () => {
      const said = await node.kubectl(...create).catch((error: unknown) => String(error));
      return said.includes('set the label owner');
    },
    { timeoutMs, everyMs: 500 }, // each attempt of kubectl costs half a second of CPU
  );
}

export async function processesOf(
  node: NodeCluster,
  command: 'webhook' | 'controllers',
): Promise<readonly number[]> {
  const found = await node.inNode('pgrep', '-f', `dist/main.js ${command}`);
  return found.trim().split('\n').map(Number);
}

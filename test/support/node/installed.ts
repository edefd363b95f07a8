/** A node with Gatehouse in its pods, installed as users do. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { programFolder, runTool } from '../go-programs.ts';
import { eventually } from '../processes.ts';
import { GOVERNED_NAMESPACE, GOVERNING_POLICY } from './governed-load.ts';
import type { NodeOptions } from './node-files.ts';
import { startNode, type NodeCluster } from './node.ts';
import { imageArchives, NODE_PREFIX } from './setup.ts';

export { CHART } from '../helm.ts';

export const SYSTEM = 'gatehouse-system';

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

export const helm = async (node: NodeCluster, ...words: readonly string[]): Promise<string> =>
  await runTool('helm', [...words, '--namespace', SYSTEM, '--kubeconfig', node.kubeconfig('admin')]);

export async function rolledOut(node: NodeCluster): Promise<void> {
  const names = await node.inSystem('get', 'deployments', '-o', 'name');
  for (const name of names.split('\n').filter((line) => line !== ''))
    await node.inSystem('rollout', 'status', name, '--timeout=110s');
}

/** Removes Gatehouse by force, so that a failed test does not fail those after it. */
export async function wipe(node: NodeCluster): Promise<void> {
  const gone = ['--ignore-not-found', '--wait=false', '-l', 'app.kubernetes.io/part-of=gatehouse'];
  await node.kubectl('delete', 'mutatingwebhookconfigurations,validatingwebhookconfigurations', ...gone);
  const policies = 'validatingadmissionpolicies,validatingadmissionpolicybindings';
  await node.kubectl('delete', `clusterroles,clusterrolebindings,${policies}`, ...gone);
  await node.kubectl('delete', policies, '-l', 'gatehouse.dev/installed-by=gatehouse-controllers');
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

/** These come and go by themselves, or a new cluster gives them to itself in its first minute. */
const OF_THE_CLUSTER =
  /^((Event|Lease|EndpointSlice|Endpoints|Pod|ReplicaSet|ControllerRevision) |ServiceAccount (kube-system\/|.+\/default$)|ConfigMap .+\/kube-root-ca.crt$)/;

export async function objectsOf(node: NodeCluster): Promise<ReadonlySet<string>> {
  const kinds = await node.kubectl('api-resources', '--verbs=list', '--cached=false', '-o', 'name');
  const names = kinds.trim().split('\n').join(',');
  const path = '{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\\n"}{end}';
  const flags = ['--all-namespaces', '--ignore-not-found', '-o', `jsonpath=${path}`];
  const listed = await node.kubectl('get', names, ...flags);
  return new Set(listed.split('\n').filter((line) => line !== '' && !OF_THE_CLUSTER.test(line)));
}

export async function leftSince(node: NodeCluster, before: ReadonlySet<string>): Promise<readonly string[]> {
  return [...(await objectsOf(node))].filter((line) => !before.has(line)).sort();
}

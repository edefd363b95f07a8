/** All objects of a cluster, to compare what it has after a removal with what it had before an installation. */
import type { NodeCluster } from './node.ts';

/** These come and go by themselves, or a new cluster gives them to itself in its first minute. */
const OF_THE_CLUSTER =
  /^((Event|Lease|EndpointSlice|Endpoints|Pod|ReplicaSet|ControllerRevision) |ServiceAccount (kube-system\/|.+\/default$)|ConfigMap .+\/kube-root-ca.crt$)/;

/** Lines of kind, namespace and name. */
export async function objectsOf(node: NodeCluster): Promise<ReadonlySet<string>> {
  const kinds = await node.kubectl('api-resources', '--verbs=list', '--cached=false', '-o', 'name');
  const names = kinds.trim().split('\n').join(',');
  const path = '{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\\n"}{end}';
  const listed = await node.kubectl(
    'get',
    names,
    '--all-namespaces',
    '--ignore-not-found',
    '-o',
    `jsonpath=${path}`,
  );
  return new Set(listed.split('\n').filter((line) => line !== '' && !OF_THE_CLUSTER.test(line)));
}

export async function leftSince(node: NodeCluster, before: ReadonlySet<string>): Promise<readonly string[]> {
  return [...(await objectsOf(node))].filter((line) => !before.has(line)).sort();
}

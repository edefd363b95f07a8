/** The references in a cluster, as far as the user may read it. */
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import { messageOf } from '../../json/error-message.ts';
import { parseJson } from '../../json/json.ts';
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import { isForbidden } from '../../kube/api-error.ts';
import type { Resource } from '../../kube/object.ts';
import { storedObjects } from '../../runtime/policies/stored-objects.ts';
import { withCluster, type UserCluster } from '../connect.ts';
import { loadClusterPolicies, NEVER } from '../review/cluster/load.ts';
import { withProgress, type ProgressLine } from '../terminal/progress.ts';
import { createGraph, type GraphBuilder } from './graph.ts';
import { connecting, kindsOf, OWN_NAMESPACE, readOptions, type Loaded, type RefsFlags } from './input.ts';
import { versionInForce } from './version-in-force.ts';

/** What could not be read is a gap of the graph, with a note. */
export const readClusterGraph = (flags: RefsFlags): Promise<Loaded> =>
  withCluster(
    flags,
    'refs',
    async (cluster) => {
      const options = readOptions(flags.recursive === true);
      const notes: string[] = [];
      const versionOf = (policy: Parameters<typeof versionInForce>[0]) => versionInForce(policy, notes);
      const { policies, broken } = await loadClusterPolicies(
        cluster,
        flags,
        options,
        OWN_NAMESPACE,
        versionOf,
      );
      notes.push(
        ...broken.map(
          ({ name, message }) => `the references of AdmissionPolicy ${name} are left out: ${message}`,
        ),
      );
      const scope = { namespace: flags.namespace ?? 'default', notes };
      const graph = await withProgress((line) => readGraph(cluster, connecting(policies), scope, line));
      return { graph, notes };
    },
    parseJson,
  );

interface Scope {
  /** Read this one if the user may not read all namespaces. */
  readonly namespace: string;
  readonly notes: string[];
}

async function readGraph(
  cluster: UserCluster,
  policies: readonly CompiledPolicy[],
  scope: Scope,
  line: ProgressLine,
): Promise<GraphBuilder> {
  const { kinds, failed } = await resolveKinds(cluster, kindsOf(policies), scope);
  const graph = createGraph(policies, kinds, await readNamespaces(cluster, scope));
  for (const kind of failed) graph.addUnread(kind);
  for (const kind of kinds) await readKind(cluster, kind, graph, scope, line);
  return graph;
}

async function resolveKinds(
  { discovery }: UserCluster,
  names: readonly GroupResource[],
  { notes }: Scope,
): Promise<{ readonly kinds: readonly Resource[]; readonly failed: readonly GroupResource[] }> {
  const kinds: Resource[] = [];
  const failed: GroupResource[] = [];
  for (const name of names) {
    try {
      const kind = await discovery.resolve(name, NEVER);
      if (kind !== undefined) kinds.push(kind);
    } catch (error) {
      failed.push(name);
      notes.push(`${groupResourceName(name)} could not be read: ${messageOf(error)}`);
    }
  }
  return { kinds, failed };
}

async function readNamespaces({ client, discovery }: UserCluster, { notes }: Scope) {
  try {
    return await storedObjects(client, discovery).namespaceLabels(NEVER);
  } catch (error) {
    if (!isForbidden(error)) throw error;
    notes.push(
      `the namespaceSelectors of policies are ignored: namespaces could not be read: ${error.message}`,
    );
    return undefined;
  }
}

async function readKind(
  { client, discovery }: UserCluster,
  kind: Resource,
  graph: GraphBuilder,
  { namespace, notes }: Scope,
  line: ProgressLine,
): Promise<void> {
  const what = groupResourceName(kind);
  let done = 0;
  const read = async (only?: string): Promise<void> => {
    const stored = storedObjects(client, discovery, undefined, only === undefined ? undefined : [only]);
    for await (const page of stored.pages(kind, NEVER)) {
      line.show({ what, done, total: undefined });
      graph.add(kind, page);
      done += page.length;
    }
  };
  try {
    await read();
  } catch (error) {
    const mayReadOne =
      kind.namespaced &&
      isForbidden(error) &&
      (await read(namespace).then(
        () => true,
        () => false,
      ));
    notes.push(
      mayReadOne
        ? `${what} could be read only in the namespace ${namespace}: ${messageOf(error)}`
        : `${what} could not be read completely: ${messageOf(error)}`,
    );
    graph.addUnread(kind, mayReadOne ? namespace : undefined);
  }
}

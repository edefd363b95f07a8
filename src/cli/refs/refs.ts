/** `gatehouse refs`: what an object refers to, and what refers to it, in a cluster or in files. */
import { grantsIn } from '../../admission/policy/exceptions/exceptions.ts';
import type { NamespaceLabels } from '../../admission/policy/match/object-scope.ts';
import { describeRef } from '../../admission/policy/object-ref.ts';
import { messageOf, messageWithCauses } from '../../json/abort.ts';
import { type GroupResource, groupResourceName, type ObjectRef } from '../../json/kube-object.ts';
import { printable } from '../../json/printable.ts';
import { readObjects, refuse, UnusableInput } from '../review/input.ts';
import { compilePolicies, readExceptions } from '../review/policies.ts';
import { createSnapshot } from '../review/snapshot.ts';
import type { ClusterFlags } from '../terminal/options.ts';
import { formatJson, hasColours, print } from '../terminal/output.ts';
import {
  createGraph,
  formatDot,
  formatTree,
  MOST_BRANCHES,
  type ReadKind,
  type RefsGraph,
  treeJson,
  walk,
} from './graph.ts';
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import { parseJson, uniqueBy } from '../../json/json.ts';
import { isForbidden } from '../../kube/api-error.ts';
import type { Resource } from '../../kube/object.ts';
import { storedObjects } from '../../runtime/policies/stored-objects.ts';
import { NEVER, type UserCluster, withCluster } from '../connect.ts';
import { loadClusterPolicies } from '../review/cluster/load.ts';
import { type ProgressLine, withProgress } from '../terminal/progress.ts';
import { governed } from '../../runtime/policies/policy-kinds.ts';
import type { AdmissionPolicy, AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { conditionOf } from '../inspect/status/report/policies.ts';

export async function refs(object: string, flags: RefsFlags): Promise<0 | 1 | 2> {
  try {
    const { graph, notes } = await (flags.filename === undefined ? readClusterGraph(flags) : ofFiles(flags));
    const start = findObject(object, flags, graph);
    const tree = walk(graph, start, flags.depth);
    if (tree.cut) notes.push(`only the first ${MOST_BRANCHES} objects are shown: use a smaller --depth`);
    for (const note of notes) console.error(`note: ${printable(note)}`);
    const exists = graph.exists(start);
    if (exists !== true)
      console.error(
        `error: ${describeRef(start)} ${exists === false ? 'does not exist' : 'could not be read'}`,
      );
    const isKnown = exists === true || graph.to(start).length > 0;
    const text = {
      tree: () => `${formatTree(tree, hasColours())}\n`,
      json: () => formatJson(treeJson(tree)),
      dot: () => `${formatDot(tree)}\n`,
    }[flags.output]();
    if (isKnown) await print(text);
    return exists === undefined ? 2 : exists ? 0 : 1;
  } catch (error) {
    for (const line of messageWithCauses(error).split('\n')) console.error(`error: ${printable(line)}`);
    return 2;
  }
}

function ofFiles({
  filename = [],
  policies = [],
  recursive = false,
  namespace = 'default',
}: RefsFlags): Promise<Loaded> {
  const options = { recursive };
  const existing = readObjects([...policies, ...filename], options);
  const { kinds, contents, notes } = createSnapshot({ existing, reviewed: [], namespace });
  const grants = grantsIn(readExceptions(existing, kinds.registry, namespace));
  const environment = { ownNamespace: OWN_NAMESPACE, grants };
  const compiled = connecting(compilePolicies(existing, kinds, environment));
  const read = kindsOf(compiled).flatMap((name): readonly ReadKind[] => {
    const found = kinds.registry.stored(name.group, name.resource);
    if (found === undefined) return [];
    const { kind, namespaced, singular, shortNames } = found;
    return [{ ...name, kind, namespaced, aliases: [singular, ...shortNames] }];
  });
  const namespaces: NamespaceLabels = new Map(
    contents
      .list({ group: '', resource: 'namespaces' })
      .map(({ metadata }) => [metadata?.name ?? '', metadata?.labels ?? {}]),
  );
  const graph = createGraph(compiled, read, namespaces);
  for (const kind of read) graph.add(kind, contents.list(kind));
  return Promise.resolve({ graph, notes: [...notes] });
}

function findObject(text: string, { namespace = 'default' }: RefsFlags, { kinds }: RefsGraph): ObjectRef {
  const [, kindName = '', name = ''] = /^([^/]+)\/([^/]+)$/.exec(text) ?? [];
  refuse(name === '' ? [`"${text}" is not an object: write <kind>/<name>, such as Server/web`] : []);
  const wanted = kindName.toLowerCase();
  const full = kinds.filter((kind) => isNamed(kind, wanted));
  const found = full.length > 0 ? full : kinds.filter(({ aliases }) => aliases?.includes(wanted) === true);
  const [only] = found;
  const names = (found.length > 1 ? found : kinds).map(groupResourceName).sort().join(', ');
  if (only === undefined)
    throw new UnusableInput(`no reference connects the kind "${kindName}", only ${names}`);
  if (found.length > 1) throw new UnusableInput(`"${kindName}" is ambiguous: write one of ${names}`);
  const { group, resource, namespaced } = only;
  return { group, resource, name, namespace: namespaced ? namespace : undefined };
}

/** Like kubectl: the plural or the kind, with or without the group. */
const isNamed = ({ group, resource, kind }: ReadKind, name: string): boolean =>
  [resource, kind.toLowerCase(), `${resource}.${group}`, `${kind.toLowerCase()}.${group}`].includes(name);

const readClusterGraph = (flags: RefsFlags): Promise<Loaded> =>
  withCluster(
    flags,
    'refs',
    async (cluster) => {
      const options = { recursive: flags.recursive === true };
      const notes: string[] = [];
      const versionOf = (policy: Parameters<typeof versionInForce>[0]) => versionInForce(policy, notes);
      const loaded = await loadClusterPolicies(cluster, flags, options, OWN_NAMESPACE, versionOf);
      for (const { name, message } of loaded.broken)
        notes.push(`the references of AdmissionPolicy ${name} are left out: ${message}`);
      const scope = { namespace: flags.namespace ?? 'default', notes };
      const graph = await withProgress((line) =>
        readGraph(cluster, connecting(loaded.policies), scope, line),
      );
      return { graph, notes };
    },
    { parse: parseJson },
  );

interface Scope {
  /** Only this one is read if the user lacks permission to read all. */
  readonly namespace: string;
  readonly notes: string[];
}

async function readGraph(
  cluster: UserCluster,
  policies: readonly CompiledPolicy[],
  scope: Scope,
  line: ProgressLine,
): Promise<RefsGraph> {
  const { kinds, failed } = await resolveKinds(cluster, kindsOf(policies), scope);
  const graph = createGraph(policies, kinds, await readNamespaces(cluster, scope));
  for (const kind of failed) graph.addUnread(kind);
  for (const kind of kinds) await readKind(cluster, kind, graph, scope, line);
  return graph;
}

async function resolveKinds({ discovery }: UserCluster, names: readonly GroupResource[], { notes }: Scope) {
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
  graph: RefsGraph,
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

export interface RefsFlags extends ClusterFlags {
  readonly namespace?: string;
  readonly filename?: readonly string[];
  readonly policies?: readonly string[];
  readonly recursive?: boolean;
  readonly depth: number;
  readonly output: 'tree' | 'json' | 'dot';
}

interface Loaded {
  readonly graph: RefsGraph;
  readonly notes: string[];
}

const OWN_NAMESPACE = 'gatehouse-system';

function connecting(policies: readonly CompiledPolicy[]): readonly CompiledPolicy[] {
  const found = policies.filter(({ references }) => references.length > 0);
  refuse(found.length === 0 ? ['no AdmissionPolicy has a reference: pass policies with -p'] : []);
  return found;
}

const kindsOf = (policies: readonly CompiledPolicy[]): readonly GroupResource[] =>
  uniqueBy(
    policies.flatMap((policy) => [...governed(policy), ...policy.references.map(({ target }) => target)]),
    groupResourceName,
  );

function versionInForce(policy: AdmissionPolicy, notes: string[]): AdmissionPolicy {
  const { metadata, status } = policy;
  const { status: ready, message } = conditionOf(policy, 'Ready');
  if (ready === 'True') return policy;
  const { inForce } = status ?? {};
  const [why] = message.split('\n');
  const newest = `AdmissionPolicy ${metadata.name ?? ''}: generation ${metadata.generation ?? 0}`;
  if (inForce === undefined) {
    notes.push(`${newest} is not in force, and no other is: its references are not enforced: ${why ?? ''}`);
    return policy;
  }
  notes.push(`${newest} is not ready; generation ${inForce.generation} is in force: ${why ?? ''}`);
  return {
    ...policy,
    metadata: { ...metadata, generation: inForce.generation },
    // The API server has validated status.inForce against the schema of the policy.
    spec: inForce.spec as AdmissionPolicySpec,
  };
}

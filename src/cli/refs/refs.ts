/** `gatehouse refs`: what an object refers to, and what refers to it, in a cluster or in files. */
import { readFileSync } from 'node:fs';

import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import { grantsIn } from '../../admission/policy/exceptions/grants.ts';
import type { NamespaceLabels } from '../../admission/policy/match/object-scope.ts';
import { describeRef } from '../../admission/policy/object-ref.ts';
import { messageOf, messageWithCauses } from '../../json/error-message.ts';
import { groupResourceName, type GroupResource, type ObjectRef } from '../../json/kube-object.ts';
import { parseJson } from '../../json/json.ts';
import { uniqueBy } from '../../json/objects.ts';
import { governed } from '../../runtime/policies/policy-kinds.ts';
import { storedObjects } from '../../runtime/policies/stored-objects.ts';
import { withCluster, type UserCluster } from '../connect.ts';
import { loadClusterPolicies, NEVER } from '../review/cluster/load.ts';
import { readObjects, refuse, UnusableInput, type ReadOptions } from '../review/input.ts';
import { compilePolicies, readExceptions } from '../review/policies.ts';
import { createSnapshot } from '../review/snapshot.ts';
import { formatJson, hasColours, print } from '../terminal/output.ts';
import { withProgress, type ProgressLine } from '../terminal/progress.ts';
import { formatDot, formatTree, treeJson } from './format.ts';
import { createGraph, type GraphBuilder, type ReadKind } from './graph.ts';
import { walk, MOST_BRANCHES } from './walk.ts';

export interface RefsFlags {
  readonly namespace?: string;
  readonly filename?: readonly string[];
  readonly policies?: readonly string[];
  readonly recursive?: boolean;
  readonly depth: number;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly output: 'tree' | 'json' | 'dot';
}

/** The namespace of Gatehouse decides only what policies may govern there: nothing. */
const OWN_NAMESPACE = 'gatehouse-system';

/** Prints the result. @returns the exit code */
export async function refs(object: string, flags: RefsFlags): Promise<0 | 1 | 2> {
  try {
    const { graph, notes } = await (flags.filename === undefined ? ofCluster(flags) : ofFiles(flags));
    const start = findObject(object, flags, graph);
    const tree = walk(graph, start, flags.depth);
    if (tree.cut) notes.push(`only the first ${MOST_BRANCHES} objects are shown: use a smaller --depth`);
    for (const note of notes) console.error(`note: ${note}`);
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
    for (const line of messageWithCauses(error).split('\n')) console.error(`error: ${line}`);
    return 2;
  }
}

interface Loaded {
  readonly graph: GraphBuilder;
  readonly notes: string[];
}

function ofFiles({
  filename = [],
  policies = [],
  recursive = false,
  namespace = 'default',
}: RefsFlags): Promise<Loaded> {
  const options = readOptions(recursive);
  const existing = readObjects([...policies, ...filename], options);
  const { kinds, contents, notes } = createSnapshot({ existing, reviewed: [], namespace });
  const grants = grantsIn(readExceptions(existing, kinds.registry, namespace));
  const environment = { ownNamespace: OWN_NAMESPACE, matchConditions: true, grants };
  const compiled = connecting(compilePolicies(existing, kinds, environment));
  const read = kindsOf(compiled).flatMap((name): readonly ReadKind[] => {
    const found = kinds.resolve(name);
    return found === undefined ? [] : [{ ...name, kind: found.kind, namespaced: found.namespaced }];
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

const ofCluster = (flags: RefsFlags): Promise<Loaded> =>
  withCluster(
    flags,
    'refs',
    async (cluster) => {
      const options = readOptions(flags.recursive === true);
      const { policies, broken } = await loadClusterPolicies(cluster, flags, options, OWN_NAMESPACE);
      const notes = broken.map(
        ({ name, message }) => `the references of AdmissionPolicy ${name} are left out: ${message}`,
      );
      const graph = await withProgress((line) => readGraph(cluster, connecting(policies), notes, line));
      return { graph, notes };
    },
    parseJson,
  );

async function readGraph(
  { client, discovery }: UserCluster,
  policies: readonly CompiledPolicy[],
  notes: string[],
  line: ProgressLine,
): Promise<GraphBuilder> {
  const stored = storedObjects(client, discovery);
  const resolved = await Promise.all(kindsOf(policies).map((kind) => discovery.resolve(kind, NEVER)));
  const kinds = resolved.filter((kind) => kind !== undefined);
  const graph = createGraph(policies, kinds, await stored.namespaceLabels(NEVER));
  for (const kind of kinds) {
    let done = 0;
    try {
      for await (const page of stored.pages(kind, NEVER)) {
        line.show({ what: groupResourceName(kind), done, total: undefined });
        graph.add(kind, page);
        done += page.length;
      }
    } catch (error) {
      notes.push(`${groupResourceName(kind)} could not be read completely: ${messageOf(error)}`);
      graph.addUnread(kind);
    }
  }
  return graph;
}

const readOptions = (recursive: boolean): ReadOptions => ({
  recursive,
  standardInput: () => readFileSync(0, 'utf8'),
});

/** @throws UnusableInput if no policy has a reference */
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

/** @throws UnusableInput if the text names no kind that policies connect, or more than one */
function findObject(text: string, { namespace = 'default' }: RefsFlags, { kinds }: GraphBuilder): ObjectRef {
  const [, kindName = '', name = ''] = /^([^/]+)\/([^/]+)$/.exec(text) ?? [];
  refuse(name === '' ? [`"${text}" is not an object: write <kind>/<name>, such as Server/web`] : []);
  const found = kinds.filter((kind) => isNamed(kind, kindName.toLowerCase()));
  const [only] = found;
  const names = (found.length > 1 ? found : kinds).map(groupResourceName).sort().join(', ');
  if (only === undefined)
    throw new UnusableInput(`no reference connects the kind "${kindName}", only ${names}`);
  if (found.length > 1) throw new UnusableInput(`"${kindName}" is one of ${names}: write the group, too`);
  const { group, resource, namespaced } = only;
  return { group, resource, name, namespace: namespaced ? namespace : undefined };
}

/** As in kubectl: the plural or the kind, alone or with the group. */
const isNamed = ({ group, resource, kind }: ReadKind, name: string): boolean =>
  [resource, kind.toLowerCase(), `${resource}.${group}`, `${kind.toLowerCase()}.${group}`].includes(name);

/** `gatehouse refs`: what an object refers to, and what refers to it, in a cluster or in files. */
import { grantsIn } from '../../admission/policy/exceptions/grants.ts';
import type { NamespaceLabels } from '../../admission/policy/match/object-scope.ts';
import { describeRef } from '../../admission/policy/object-ref.ts';
import { messageWithCauses } from '../../json/error-message.ts';
import { groupResourceName, type ObjectRef } from '../../json/kube-object.ts';
import { printable } from '../../json/printable.ts';
import { readObjects, refuse, UnusableInput } from '../review/input.ts';
import { compilePolicies, readExceptions } from '../review/policies.ts';
import { createSnapshot } from '../review/snapshot.ts';
import { formatJson, hasColours, print } from '../terminal/output.ts';
import { readClusterGraph } from './cluster-graph.ts';
import { formatDot, formatTree, treeJson } from './format.ts';
import { createGraph, type GraphBuilder, type ReadKind } from './graph.ts';
import { connecting, kindsOf, OWN_NAMESPACE, readOptions, type Loaded, type RefsFlags } from './input.ts';
import { walk, MOST_BRANCHES } from './walk.ts';

/** Prints the result. @returns the exit code */
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
  const options = readOptions(recursive);
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

/** @throws UnusableInput if the text names no kind that policies connect, or more than one */
function findObject(text: string, { namespace = 'default' }: RefsFlags, { kinds }: GraphBuilder): ObjectRef {
  const [, kindName = '', name = ''] = /^([^/]+)\/([^/]+)$/.exec(text) ?? [];
  refuse(name === '' ? [`"${text}" is not an object: write <kind>/<name>, such as Server/web`] : []);
  const wanted = kindName.toLowerCase();
  const full = kinds.filter((kind) => isNamed(kind, wanted));
  const found = full.length > 0 ? full : kinds.filter(({ aliases }) => aliases?.includes(wanted) === true);
  const [only] = found;
  const names = (found.length > 1 ? found : kinds).map(groupResourceName).sort().join(', ');
  if (only === undefined)
    throw new UnusableInput(`no reference connects the kind "${kindName}", only ${names}`);
  if (found.length > 1) throw new UnusableInput(`"${kindName}" is one of ${names}: write the group, too`);
  const { group, resource, namespaced } = only;
  return { group, resource, name, namespace: namespaced ? namespace : undefined };
}

/** As in kubectl: the plural or the kind, alone or with the group. A full name precedes a short name of another kind. */
const isNamed = ({ group, resource, kind }: ReadKind, name: string): boolean =>
  [resource, kind.toLowerCase(), `${resource}.${group}`, `${kind.toLowerCase()}.${group}`].includes(name);

/** Which objects refer to which: the references of policies, and owner references. One object of the graph as a tree. */
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import { isInScope, type NamespaceLabels } from '../../admission/policy/match/object-scope.ts';
import { targetKey } from '../../admission/policy/object-ref.ts';
import { readReferences } from '../../admission/policy/references/read-references.ts';
import {
  groupResourceName,
  refOf,
  splitApiVersion,
  type GroupResource,
  type KubeObject,
  type ObjectRef,
  objectKey,
} from '../../json/kube-object.ts';
import { compareText } from '../../json/json.ts';
import { escapeControls, printable } from '../../json/printable.ts';
import { paint, type Cell } from '../terminal/output.ts';

interface Link {
  readonly from: ObjectRef;
  readonly to: ObjectRef;
  readonly field: string;
  readonly by: { readonly policy: string; readonly reference: string } | undefined;
  /** An owner reference names one object by its uid; undefined: the name decides. */
  readonly uid?: string | undefined;
}

export type ReadKind = GroupResource & {
  readonly kind: string;
  readonly namespaced: boolean;
  readonly aliases?: readonly string[];
};

interface Gap {
  readonly kind: GroupResource;
  readonly readNamespace: string | undefined;
}

export type RefsGraph = ReturnType<typeof createGraph>;

/** @param namespaces undefined: unknown, so that a namespaceSelector excludes nothing */
export function createGraph(
  policies: readonly CompiledPolicy[],
  kinds: readonly ReadKind[],
  namespaces: NamespaceLabels | undefined,
) {
  /** The uids of all objects; undefined in files. */
  const known = new Map<string, string | undefined>();
  const gaps: Gap[] = [];
  const forward = new Map<string, Link[]>();
  const backward = new Map<string, Link[]>();
  const byKind = new Map(kinds.map((kind) => [`${kind.group}/${kind.kind}`, kind]));
  return {
    kinds,
    gaps,
    /** Undefined: its kind could not be read. */
    exists: (object: ObjectRef): boolean | undefined =>
      known.has(targetKey(object)) || (gaps.some((gap) => isIn(gap, object)) ? undefined : false),
    isFormer: ({ to, uid }: Link): boolean => {
      const now = known.get(targetKey(to));
      return uid !== undefined && now !== undefined && uid !== now;
    },
    from: (object: ObjectRef): readonly Link[] => forward.get(targetKey(object)) ?? [],
    to: (object: ObjectRef): readonly Link[] => backward.get(targetKey(object)) ?? [],
    addUnread: ({ group, resource }: GroupResource, readNamespace?: string): void => {
      gaps.push({ kind: { group, resource }, readNamespace });
    },
    /** The pages of a kind. Keeps no objects, only the links between them. */
    add: (kind: ReadKind, objects: readonly KubeObject[]): void => {
      for (const object of objects) {
        const from = refOf(kind, object);
        known.set(targetKey(from), object.metadata?.uid);
        const links = [
          ...policyLinks(policies, kind, from, object, namespaces),
          ...ownerLinks(from, object, byKind),
        ];
        for (const link of links) {
          push(forward, targetKey(link.from), link);
          push(backward, targetKey(link.to), link);
        }
      }
    },
  };
}

const isIn = ({ kind, readNamespace }: Gap, object: ObjectRef): boolean =>
  groupResourceName(kind) === groupResourceName(object) &&
  (readNamespace === undefined || object.namespace !== readNamespace);

function push(links: Map<string, Link[]>, key: string, link: Link): void {
  const list = links.get(key);
  if (list === undefined) links.set(key, [link]);
  else list.push(link);
}

function policyLinks(
  policies: readonly CompiledPolicy[],
  { group, resource }: GroupResource,
  from: ObjectRef,
  object: KubeObject,
  namespaces: NamespaceLabels | undefined,
): readonly Link[] {
  return policies
    .filter(({ match }) => match.apiGroups.includes(group) && match.resources.includes(resource))
    .filter(({ match }) =>
      namespaces === undefined
        ? isInScope({ match: { ...match, namespaceSelector: {} } }, object, new Map())
        : isInScope({ match }, object, namespaces),
    )
    .flatMap((policy) =>
      readReferences(policy, object, from.namespace).found.map(({ reference, field, target }) => ({
        from,
        field,
        to: target,
        by: { policy: policy.name, reference: reference.name },
      })),
    );
}

function ownerLinks(
  from: ObjectRef,
  { metadata = {} }: KubeObject,
  kinds: ReadonlyMap<string, ReadKind>,
): readonly Link[] {
  return (metadata.ownerReferences ?? []).flatMap(({ apiVersion, kind, name, uid }) => {
    const owner = kinds.get(`${splitApiVersion(apiVersion).group}/${kind}`);
    if (owner === undefined) return [];
    const { group, resource, namespaced } = owner;
    const to = { group, resource, name, namespace: namespaced ? from.namespace : undefined };
    return [{ from, to, field: 'metadata.ownerReferences', by: undefined, uid }];
  });
}

type Direction = 'refersTo' | 'referredBy';

interface Branch {
  readonly object: ObjectRef;
  readonly links: readonly Link[];
  /** `missing` and `former` do not exist, and another object has the name of a former one; `unknown`: not readable. */
  readonly state: 'exists' | 'missing' | 'former' | 'unknown';
  /** The fields reference an earlier object with the same name and another uid. */
  readonly isFormer: boolean;
  /** Why `below` is empty: the object is above in the tree, or the tree ends at this depth. */
  readonly end: 'cycle' | 'depth' | undefined;
  readonly below: readonly Branch[];
}

type Tree = Omit<ReturnType<typeof walk>, 'cut'>;

export const MOST_BRANCHES = 10_000;

export function walk(graph: RefsGraph, object: ObjectRef, depth: number) {
  const budget = { left: MOST_BRANCHES };
  const inDirection = (direction: Direction) =>
    branches(graph, direction, object, [targetKey(object)], depth, budget);
  const refersTo = inDirection('refersTo');
  const referredBy = inDirection('referredBy');
  return { object, refersTo, referredBy, gaps: graph.gaps, cut: budget.left < 0 };
}

const bySource = (left: Link, right: Link): number =>
  compareText(targetKey(left.from), targetKey(right.from)) || compareText(left.field, right.field);

function branches(
  graph: RefsGraph,
  direction: Direction,
  object: ObjectRef,
  above: readonly string[],
  depth: number,
  budget: { left: number },
): readonly Branch[] {
  const links = direction === 'refersTo' ? graph.from(object) : graph.to(object).toSorted(bySource);
  const otherOf = ({ from, to }: Link): ObjectRef => (direction === 'refersTo' ? to : from);
  const byObject = Map.groupBy(links, (link) =>
    JSON.stringify([targetKey(otherOf(link)), graph.isFormer(link) ? link.uid : null]),
  );
  return [...byObject.values()].flatMap((same) => {
    const [first] = same;
    budget.left -= 1;
    if (first === undefined || budget.left < 0) return [];
    const other = otherOf(first);
    const key = targetKey(other);
    const isFormer = graph.isFormer(first);
    const exists = graph.exists(other);
    const named = exists === undefined ? 'unknown' : exists ? 'exists' : 'missing';
    const state = isFormer && direction === 'refersTo' ? 'former' : named;
    // The references of the object with this name do not belong to the former one.
    const hasMore = !isFormer && (direction === 'refersTo' ? graph.from(other) : graph.to(other)).length > 0;
    const end = !isFormer && above.includes(key) ? 'cycle' : depth <= 1 && hasMore ? 'depth' : undefined;
    const below =
      end === undefined && hasMore
        ? branches(graph, direction, other, [...above, key], depth - 1, budget)
        : [];
    return [{ object: other, links: same, state, isFormer, end, below }];
  });
}

const nameOf = (object: ObjectRef): string => `${groupResourceName(object)} ${objectKey(object)}`;

function describeLink({ field, by, uid = '' }: Link, isFormer: boolean): string {
  if (by !== undefined) return `${field} (policy ${by.policy}, reference ${by.reference})`;
  return isFormer ? `owner reference to an earlier object with this name (uid ${uid})` : 'owner reference';
}

const STATES: Readonly<Record<Branch['state'], Cell | undefined>> = {
  exists: undefined,
  missing: { text: 'does not exist', tone: 'bad' },
  former: { text: 'does not exist', tone: 'bad' },
  unknown: { text: 'unknown: its kind could not be read', tone: 'warn' },
};

const ENDS = { cycle: 'see above', depth: '… more with a larger --depth' } as const;

export function formatTree({ object, refersTo, referredBy, gaps }: Tree, colours: boolean): string {
  const part = (title: string, none: string, branches: readonly Branch[]) =>
    branches.length === 0 ? [none] : [title, ...linesOf(branches, '', colours)];
  return [
    printable(nameOf(object)),
    '',
    ...part('refers to', 'refers to nothing', refersTo),
    '',
    ...part(
      'is referred to by',
      gaps.length === 0 ? 'nothing refers to it' : 'nothing that could be read refers to it',
      referredBy,
    ),
  ].join('\n');
}

function linesOf(branches: readonly Branch[], indent: string, colours: boolean): readonly string[] {
  return branches.flatMap((branch, index) => {
    const isLast = index === branches.length - 1;
    const state = STATES[branch.state];
    const notes = [
      printable(branch.links.map((link) => describeLink(link, branch.isFormer)).join(', ')),
      ...(state === undefined ? [] : [paint(state, colours)]),
      ...(branch.end === undefined ? [] : [ENDS[branch.end]]),
    ];
    return [
      `${indent}${isLast ? '└── ' : '├── '}${paint(nameOf(branch.object), colours)}   ${notes.join('   ')}`,
      ...linesOf(branch.below, `${indent}${isLast ? '    ' : '│   '}`, colours),
    ];
  });
}

/** Each object with its kind as `<plural>.<group>`; `namespace` is absent for cluster-scoped objects. */
export const treeJson = ({ object, refersTo, referredBy, gaps }: Tree): object => ({
  object: objectJson(object),
  refersTo: refersTo.map(branchJson),
  referredBy: referredBy.map(branchJson),
  ...(gaps.length === 0 ? {} : { gaps: gaps.map(gapJson) }),
});

/** Without `readNamespace`, no object of the kind could be read. */
const gapJson = ({ kind, readNamespace }: Gap): object => ({
  resource: groupResourceName(kind),
  ...(readNamespace === undefined ? {} : { readNamespace }),
});

const branchJson = ({ object, links, state, isFormer, end, below }: Branch): object => ({
  ...objectJson(object),
  state,
  fields: links.map(({ field, by, uid }) => ({ field, ...by, ...(isFormer ? { uid } : {}) })),
  ...(end === undefined ? {} : { end }),
  ...(below.length === 0 ? {} : { below: below.map(branchJson) }),
});

const objectJson = (object: ObjectRef): object => ({
  resource: groupResourceName(object),
  ...(object.namespace === undefined ? {} : { namespace: object.namespace }),
  name: object.name,
});

/** @see https://graphviz.org/doc/info/lang.html */
export function formatDot(tree: Tree): string {
  const nodes = new Map([[targetKey(tree.object), line(tree.object, 'style=bold')]]);
  const edges = new Set<string>();
  const put = (key: string, object: ObjectRef, state: Branch['state']): void => {
    if (!nodes.has(key)) nodes.set(key, line(object, STYLES[state], key));
  };
  const visit = (branches: readonly Branch[]): void => {
    for (const { object, state, isFormer, links, below } of branches) {
      if (state !== 'former') put(targetKey(object), object, state);
      for (const { from, to, field, by, uid } of links) {
        const key = isFormer ? `${targetKey(to)}#${uid ?? ''}` : targetKey(to);
        if (isFormer) put(key, to, 'former');
        const label = quoted(by === undefined ? 'owner' : field);
        edges.add(`  ${quoted(targetKey(from))} -> ${quoted(key)} [label=${label}];`);
      }
      visit(below);
    }
  };
  visit(tree.refersTo);
  visit(tree.referredBy);
  return ['digraph refs {', '  rankdir=LR;', '  node [shape=box];', ...nodes.values(), ...edges, '}'].join(
    '\n',
  );
}

const STYLES: Readonly<Record<Branch['state'], string>> = {
  exists: '',
  missing: 'color=red, style=dashed',
  former: 'color=red, style=dashed',
  unknown: 'style=dashed',
};

function line(object: ObjectRef, style: string, key = targetKey(object)): string {
  const label = quoted(`${groupResourceName(object)}\n${objectKey(object)}`);
  return `  ${quoted(key)} [${[`label=${label}`, style].filter((part) => part !== '').join(', ')}];`;
}

/** In a quoted string of DOT, only quotes end it; a backslash starts an escape of the label. */
const quoted = (text: string): string =>
  `"${escapeControls(text).replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')}"`;

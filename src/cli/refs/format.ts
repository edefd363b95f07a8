/** A tree of references for people, for programs, and for Graphviz. */
import { targetKey } from '../../admission/policy/object-ref.ts';
import { groupResourceName, objectKey, type ObjectRef } from '../../json/kube-object.ts';
import { escapeControls, printable } from '../../json/printable.ts';
import { paint, type Colour } from '../terminal/output.ts';
import type { Gap, Link } from './graph.ts';
import type { Branch, Tree } from './walk.ts';

/** `servers.infra.example.com shop/web` */
const nameOf = (object: ObjectRef): string => `${groupResourceName(object)} ${objectKey(object)}`;

function describeLink({ field, by, uid = '' }: Link, isFormer: boolean): string {
  if (by !== undefined) return `${field} (policy ${by.policy}, reference ${by.reference})`;
  return isFormer ? `owner reference to an earlier object with this name (uid ${uid})` : 'owner reference';
}

const STATES: Readonly<Record<Branch['state'], readonly [text: string, colour: Colour | undefined]>> = {
  exists: ['', undefined],
  missing: ['does not exist', 'red'],
  former: ['does not exist', 'red'],
  unknown: ['unknown: its kind could not be read', 'yellow'],
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
    const [state, colour] = STATES[branch.state];
    const notes = [
      printable(branch.links.map((link) => describeLink(link, branch.isFormer)).join(', ')),
      ...(state === '' ? [] : [paint({ text: state, colour }, colours)]),
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

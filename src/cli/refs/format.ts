/** A tree of references for people, for programs, and for Graphviz. */
import { targetKey } from '../../admission/policy/object-ref.ts';
import { groupResourceName, objectKey, type ObjectRef } from '../../json/kube-object.ts';
import { printable } from '../../json/printable.ts';
import { paint, type Colour } from '../terminal/output.ts';
import type { Link } from './graph.ts';
import type { Branch, Tree } from './walk.ts';

/** `servers.infra.example.com shop/web` */
const nameOf = (object: ObjectRef): string => `${groupResourceName(object)} ${objectKey(object)}`;

const describeLink = ({ field, by }: Link): string =>
  by === undefined ? 'owner reference' : `${field} (policy ${by.policy}, reference ${by.reference})`;

const STATES: Readonly<Record<Branch['state'], readonly [text: string, colour: Colour | undefined]>> = {
  exists: ['', undefined],
  missing: ['does not exist', 'red'],
  unknown: ['unknown: its kind could not be read', 'yellow'],
};

const ENDS = { cycle: 'see above', depth: '… more with a larger --depth' } as const;

export function formatTree({ object, refersTo, referredBy }: Tree, colours: boolean): string {
  const part = (title: string, none: string, branches: readonly Branch[]) =>
    branches.length === 0 ? [none] : [title, ...linesOf(branches, '', colours)];
  return [
    printable(nameOf(object)),
    '',
    ...part('refers to', 'refers to nothing', refersTo),
    '',
    ...part('is referred to by', 'nothing refers to it', referredBy),
  ].join('\n');
}

function linesOf(branches: readonly Branch[], indent: string, colours: boolean): readonly string[] {
  return branches.flatMap((branch, index) => {
    const isLast = index === branches.length - 1;
    const [state, colour] = STATES[branch.state];
    const notes = [
      printable(branch.links.map(describeLink).join(', ')),
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
export const treeJson = ({ object, refersTo, referredBy }: Tree): object => ({
  object: objectJson(object),
  refersTo: refersTo.map(branchJson),
  referredBy: referredBy.map(branchJson),
});

const branchJson = ({ object, links, state, end, below }: Branch): object => ({
  ...objectJson(object),
  state,
  fields: links.map(({ field, by }) => ({ field, ...by })),
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
  const visit = (branches: readonly Branch[]): void => {
    for (const { object, state, links, below } of branches) {
      const style = { exists: '', missing: 'color=red, style=dashed', unknown: 'style=dashed' }[state];
      const key = targetKey(object);
      if (!nodes.has(key)) nodes.set(key, line(object, style));
      for (const { from, to, field, by } of links)
        edges.add(
          `  ${quoted(targetKey(from))} -> ${quoted(targetKey(to))} [label=${quoted(by === undefined ? 'owner' : field)}];`,
        );
      visit(below);
    }
  };
  visit(tree.refersTo);
  visit(tree.referredBy);
  return ['digraph refs {', '  rankdir=LR;', '  node [shape=box];', ...nodes.values(), ...edges, '}'].join(
    '\n',
  );
}

function line(object: ObjectRef, style: string): string {
  const label = quoted(`${groupResourceName(object)}\n${objectKey(object)}`);
  return `  ${quoted(targetKey(object))} [${[`label=${label}`, style].filter((part) => part !== '').join(', ')}];`;
}

/** In a quoted string of DOT, only quotes end it; a backslash starts an escape of the label. */
const quoted = (text: string): string =>
  `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')}"`;

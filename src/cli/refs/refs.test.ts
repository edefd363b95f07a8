import { describe, expect, test } from 'vitest';

import type { KubeObject } from '../../json/kube-object.ts';
import { policyOf } from '../../../test/support/admission/policy.ts';
import { formatDot, formatTree, treeJson, createGraph, type ReadKind, walk } from './graph.ts';

const GROUP = 'infra.example.com';
const NODES: ReadKind = { group: GROUP, resource: 'servers', kind: 'Server', namespaced: true };
const POLICY = policyOf(
  {
    validate: {
      references: [
        { name: 'next', path: 'spec.next', target: { apiGroup: GROUP, resource: 'servers' } },
        { name: 'all', path: 'spec.all[*]', target: { apiGroup: GROUP, resource: 'servers' } },
      ],
    },
  },
  'nodes',
);

const node = (name: string, spec: object, owners: readonly string[] = []): KubeObject => ({
  apiVersion: `${GROUP}/v1`,
  kind: 'Server',
  ...{ spec },
  metadata: {
    name,
    namespace: 'store',
    ownerReferences: owners.map((owner) => ({
      apiVersion: `${GROUP}/v1`,
      kind: 'Server',
      name: owner,
      uid: owner,
    })),
  },
});

function graphOf(...objects: readonly KubeObject[]) {
  const graph = createGraph([POLICY], [NODES], new Map());
  graph.add(NODES, objects);
  return graph;
}
const refOf = (name: string) => ({ group: GROUP, resource: 'servers', namespace: 'store', name });
const shown = (graph: ReturnType<typeof graphOf>, name: string, depth = 3) =>
  formatTree(walk(graph, refOf(name), depth), false);

describe('the tree of an object', () => {
  test('shows what it refers to and what refers to it, with fields, policies and owners', () => {
    const graph = graphOf(
      node('a', { next: 'b', all: ['b', 'c'] }),
      node('b', { next: 'gone' }),
      node('c', {}, ['b']),
    );
    expect(shown(graph, 'b')).toBe(`servers.infra.example.com store/b

refers to
└── servers.infra.example.com store/gone   spec.next (policy nodes, reference next)   does not exist

is referred to by
├── servers.infra.example.com store/a   spec.all[0] (policy nodes, reference all), spec.next (policy nodes, reference next)
└── servers.infra.example.com store/c   owner reference
    └── servers.infra.example.com store/a   spec.all[1] (policy nodes, reference all)`);
  });

  test('ends at a cycle, and at the depth', () => {
    const graph = graphOf(node('a', { next: 'b' }), node('b', { next: 'c' }), node('c', { next: 'a' }));
    expect(shown(graph, 'a')).toContain('        └── servers.infra.example.com store/a   spec.next');
    expect(shown(graph, 'a')).toContain('see above');
    expect(shown(graph, 'a', 1)).toContain('… more with a larger --depth');
  });

  test('does not call an object missing whose kind could not be read', () => {
    const graph = graphOf(node('a', { next: 'b' }));
    graph.addUnread(NODES);
    expect(shown(graph, 'a')).toContain('unknown: its kind could not be read');
  });

  test('without the labels of namespaces, a namespaceSelector excludes nothing', () => {
    const selecting = {
      ...POLICY,
      match: { ...POLICY.match, namespaceSelector: { matchLabels: { team: 'a' } } },
    };
    const linksWith = (namespaces: ReadonlyMap<string, Readonly<Record<string, string>>> | undefined) => {
      const graph = createGraph([selecting], [NODES], namespaces);
      graph.add(NODES, [node('a', { next: 'b' })]);
      return graph.from(refOf('a')).length;
    };
    expect([
      linksWith(undefined),
      linksWith(new Map()),
      linksWith(new Map([['store', { team: 'a' }]])),
    ]).toEqual([1, 0, 1]);
  });

  test('ends in a graph in which each object refers to all others', () => {
    const names = Array.from({ length: 30 }, (_, index) => `n${index}`);
    const graph = graphOf(...names.map((name) => node(name, { all: names.filter((one) => one !== name) })));
    expect(walk(graph, refOf('n0'), 100).cut).toBe(true);
  });
});

test('as JSON, each object has its resource, namespace, name, state and fields', () => {
  const graph = graphOf(node('a', { next: 'gone' }));
  expect(treeJson(walk(graph, refOf('a'), 1))).toEqual({
    object: { resource: 'servers.infra.example.com', namespace: 'store', name: 'a' },
    refersTo: [
      {
        resource: 'servers.infra.example.com',
        namespace: 'store',
        name: 'gone',
        state: 'missing',
        fields: [{ field: 'spec.next', policy: 'nodes', reference: 'next' }],
      },
    ],
    referredBy: [],
  });
});

test('for Graphviz, each object is one node, and hostile text cannot end a quoted string', () => {
  const graph = graphOf(node('a', { next: 'b' }), node('b', { next: 'a' }));
  const dot = formatDot(walk(graph, refOf('a'), 5));
  expect(dot.match(/label="servers/g)).toHaveLength(2);
  expect(dot.match(/->/g)).toHaveLength(2);
  const hostile = formatDot({ object: refOf('x"]; evil \\'), refersTo: [], referredBy: [], gaps: [] });
  expect(hostile).toContain(String.raw`store/x\"]; evil \\"`);
});

test('the name of an owner cannot control the terminal, in any format', () => {
  // The API server accepts any text.
  const owner = 'x\u001b]0;title\u0007\u202e';
  const tree = walk(graphOf(node('a', {}, [owner])), refOf('a'), 2);
  const all = formatTree(tree, false) + formatDot(tree);
  for (const control of ['\u001b', '\u0007', '\u202e']) expect(all).not.toContain(control);
  expect(formatDot(tree)).toContain(String.raw`x\\u001b]0;title\\u0007\\u202e`);
});

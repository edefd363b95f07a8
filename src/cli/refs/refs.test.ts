import { describe, expect, test } from 'vitest';

import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { policyOf } from '../../../test/support/admission/policy.ts';
import { formatDot, formatTree, treeJson, createGraph, type ReadKind, walk } from './graph.ts';
import { versionInForce } from './refs.ts';

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
  ...{ apiVersion: `${GROUP}/v1`, kind: 'Server', spec },
  metadata: {
    name,
    namespace: 'store',
    ownerReferences: owners.map((owner) => ({
      ...{ apiVersion: `${GROUP}/v1`, kind: 'Server', name: owner, uid: owner },
    })),
  },
});

const withUid = (object: KubeObject, uid: string): KubeObject => ({
  ...object,
  metadata: { ...object.metadata, uid },
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

  test('names what could not be read, and does not say that nothing refers to the object', () => {
    const graph = graphOf(node('a', { next: 'b' }));
    graph.addUnread(NODES, 'store');
    expect(graph.exists(refOf('b'))).toBe(false);
    expect(graph.exists({ ...refOf('b'), namespace: 'other' })).toBeUndefined();
    expect(shown(graph, 'a')).toContain('nothing that could be read refers to it');
    expect(treeJson(walk(graph, refOf('a'), 1))).toMatchObject({
      gaps: [{ resource: 'servers.infra.example.com', readNamespace: 'store' }],
    });
  });

  test('does not take an object for an earlier one with its name', () => {
    const owner = withUid(node('owner', { next: 'other' }), 'new');
    const graph = graphOf(owner, node('current', {}), node('old', {}, ['owner']), node('other', {}));
    expect(shown(graph, 'old')).toContain(`refers to
└── servers.infra.example.com store/owner   owner reference to an earlier object with this name (uid owner)   does not exist

`);
    expect(shown(graph, 'owner')).toContain(
      '└── servers.infra.example.com store/old   owner reference to an earlier object with this name (uid owner)',
    );
    expect(treeJson(walk(graph, refOf('old'), 2))).toMatchObject({
      refersTo: [{ state: 'former', fields: [{ field: 'metadata.ownerReferences', uid: 'owner' }] }],
    });
    const dot = formatDot(walk(graph, refOf('old'), 2));
    expect(dot).toContain('-> "servers.infra.example.com/store/owner#owner"');
    expect(dot).not.toContain('servers.infra.example.com/store/owner"');
    const alive = graphOf(withUid(owner, 'owner'), node('old', {}, ['owner']));
    expect(shown(alive, 'old')).toContain('store/owner   owner reference\n');
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
        ...{ resource: 'servers.infra.example.com', namespace: 'store', name: 'gone', state: 'missing' },
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

describe('the version of a policy in force', () => {
  const spec = { match: { apiGroups: [GROUP], apiVersions: ['v1'], resources: ['servers'] } };
  const earlier = { ...spec, enforcement: 'Warn' as const };
  const policy = (status: 'True' | 'False', inForce: boolean): AdmissionPolicy => ({
    ...{ apiVersion: 'gatehouse.dev/v1alpha1', kind: 'AdmissionPolicy', spec },
    metadata: { name: 'nodes', generation: 3 },
    status: {
      conditions: [
        {
          ...{ type: 'Ready', status, reason: 'Invalid', message: 'spec.x: wrong\n(generation 2 stays)' },
          lastTransitionTime: '2026-01-01T00:00:00Z',
        },
      ],
      ...(inForce ? { inForce: { generation: 2, spec: earlier } } : {}),
    },
  });
  const chosen = (given: AdmissionPolicy) => {
    const notes: string[] = [];
    const { enforcement } = versionInForce(given, notes).spec;
    return { enforcement, notes };
  };

  test('is the newest one if it is ready', () => {
    expect(chosen(policy('True', true))).toEqual({ enforcement: undefined, notes: [] });
  });

  test('is the one that the status contains, with a note', () => {
    expect(chosen(policy('False', true))).toEqual({
      enforcement: 'Warn',
      notes: ['AdmissionPolicy nodes: generation 3 is not ready; generation 2 is in force: spec.x: wrong'],
    });
  });

  test('may be none', () => {
    expect(chosen(policy('False', false))).toEqual({
      enforcement: undefined,
      notes: [
        'AdmissionPolicy nodes: generation 3 is not in force, and no other is: its references are not enforced: spec.x: wrong',
      ],
    });
  });
});

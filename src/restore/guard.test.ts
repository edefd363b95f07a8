import { describe, expect, test } from 'vitest';
import { veleroDetector } from '../../test/support/velero-detector.ts';
import type { RestoreWindow } from '../api/restore-window.ts';
import type { JsonObject } from '../json/json.ts';
import { type Guard, guardProblem, guardsOf, type Rights } from './guard.ts';
import { OPENER_SCOPE } from './window.ts';

const NOW = new Date('2026-11-21T12:00:00Z');
const RBAC = 'rbac.authorization.k8s.io';
const guard: Guard = {
  by: 'RestoreDetector velero',
  principals: [{ user: 'velero' }],
  refuse: ['Permissions'],
  rightsOf: { user: 'ana' },
};

/** Ana may do what `allowed` lists, as `verb resource/subresource name namespace`. */
function scene(allowed: readonly string[], roles: Readonly<Record<string, JsonObject>> = {}) {
  const asked: string[] = [];
  const rights: Rights = {
    may: (question) => {
      const { verb } = question;
      const text =
        'path' in question
          ? `${verb} path ${question.path}`
          : [
              `${verb} ${[question.resource, question.subresource].filter(Boolean).join('/')}`,
              question.name,
              question.namespace,
            ]
              .filter(Boolean)
              .join(' ');
      asked.push(text);
      return Promise.resolve(allowed.includes(text));
    },
    readRole: (resource, { namespace, name }) =>
      Promise.resolve(roles[[resource, namespace, name].filter(Boolean).join('/')]),
  };
  const said = async (resource: string, object: JsonObject, oldObject?: JsonObject, namespace?: string) =>
    (await guardProblem(
      { resource: { group: RBAC, resource }, namespace, name: 'x', object, oldObject },
      guard,
      rights,
    )) ?? 'allowed';
  return { asked, said };
}

const PODS = {
  apiGroups: [''],
  resources: ['pods/exec'],
  resourceNames: ['a', 'b'],
  verbs: ['create', 'create'],
};

describe('a role', () => {
  test('asks for each permission once, with names and subresources', async () => {
    const { asked, said } = scene(['create pods/exec a ns', 'create pods/exec b ns']);
    expect(await said('roles', { rules: [PODS] }, undefined, 'ns')).toBe('allowed');
    expect(asked).toEqual(['escalate roles ns', 'create pods/exec a ns', 'create pods/exec b ns']);
  });

  test('names the first permission that the user lacks, and what to do', async () => {
    const { said } = scene(['create pods/exec a ns']);
    expect(await said('roles', { rules: [PODS] }, undefined, 'ns')).toBe(
      `roles.${RBAC} ns/x: RestoreDetector velero limits restores to the permissions of ana, who lacks permission to create pods/exec b in ns: exclude it from the restore, or let an administrator apply it`,
    );
  });

  test('passes for a user who may escalate it: by name only if it exists', async () => {
    const { said } = scene(['escalate clusterroles x']);
    expect(await said('clusterroles', { rules: [PODS] }, {})).toBe('allowed');
    expect(await said('clusterroles', { rules: [PODS] })).toContain('create pods/exec a');
  });

  test('that collected other roles counts as everything', async () => {
    const before = { aggregationRule: { clusterRoleSelectors: [{}] } };
    expect(await scene(['* *']).said('clusterroles', { rules: [] }, before)).toContain('permission to * *:');
    expect(await scene(['* *', '* path *']).said('clusterroles', { rules: [] }, before)).toBe('allowed');
  });
});

describe('a binding', () => {
  const to = (kind: string): JsonObject => ({ roleRef: { kind, name: 'r' } });
  const roles = { 'roles/ns/r': { rules: [PODS] }, 'clusterroles/r': { rules: [PODS] } };

  test.each(['Role', 'ClusterRole'])(
    'to a %s grants its permissions in the namespace of the binding',
    async (kind) => {
      const held = ['create pods/exec a ns', 'create pods/exec b ns'];
      expect(await scene(held, roles).said('rolebindings', to(kind), undefined, 'ns')).toBe('allowed');
      expect(await scene(held, roles).said('clusterrolebindings', to('ClusterRole'))).toContain(
        'pods/exec a:',
      );
      expect(await scene(held).said('rolebindings', to(kind), undefined, 'ns')).toContain(
        'which does not exist',
      );
    },
  );

  test('passes for a user who may bind the role', async () => {
    expect(await scene(['bind clusterroles r']).said('clusterrolebindings', to('ClusterRole'))).toBe(
      'allowed',
    );
  });
});

test('guards of detectors always count, and those of windows while the window is open', () => {
  const { refuse } = guard;
  const detector = veleroDetector();
  const spec = {
    principals: [{ user: 'tool' }],
    expiresAt: '2026-11-21T13:00:00Z',
    guard: { refuse },
  };
  const window = (name: string, more: object = {}): RestoreWindow => ({
    metadata: { name, annotations: { [OPENER_SCOPE]: 'Cluster' } },
    spec: { ...spec, ...more },
  });
  const found = guardsOf(
    [detector, { ...detector, spec: { ...detector.spec, guard: { refuse } } }],
    [
      window('open'),
      window('closed', { close: true }),
      window('late', { expiresAt: '2026-11-21T11:00:00Z' }),
    ],
    NOW,
  );
  expect(found.map(({ by }) => by)).toEqual(['RestoreDetector velero', 'RestoreWindow open']);
  const tenants = { ...window('tenant'), metadata: { name: 'tenant' } };
  expect(guardsOf([], [tenants], NOW)).toEqual([]);
});

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
      const { path, resource, subresource, name, namespace } = { ...EMPTY, ...question };
      const kind = [resource, subresource].filter(Boolean).join('/');
      const text = [question.verb, path && 'path', path, kind, name, namespace].filter(Boolean).join(' ');
      asked.push(text);
      return Promise.resolve(allowed.includes(text));
    },
    readRole: (resource, { namespace, name }) =>
      Promise.resolve(roles[[resource, namespace, name].filter(Boolean).join('/')]),
  };
  const said = async (full: string, object: JsonObject, oldObject?: JsonObject) => {
    const [resource = '', namespace] = full.split(' ');
    const write = { resource: { group: RBAC, resource }, namespace, name: 'x', object, oldObject };
    return (await guardProblem(write, guard, rights)) ?? 'allowed';
  };
  return { asked, said };
}

const EMPTY = { path: '', resource: '', subresource: '', name: '', namespace: '' };
const PODS = { apiGroups: [''], resources: ['pods/exec'], resourceNames: ['a', 'b'], verbs: ['create'] };

describe('a role', () => {
  test('asks for each permission, with names and subresources', async () => {
    const { asked, said } = scene(['create pods/exec a ns', 'create pods/exec b ns']);
    expect(await said('roles ns', { rules: [PODS] })).toBe('allowed');
    expect(asked).toEqual(['escalate roles ns', 'create pods/exec a ns', 'create pods/exec b ns']);
  });

  test('names the first permission that the user lacks, and what to do', async () => {
    const { said } = scene(['create pods/exec a ns']);
    expect(await said('roles ns', { rules: [PODS] })).toBe(
      `roles.${RBAC} ns/x: RestoreDetector velero limits restores to the permissions of ana, who lacks permission to create pods/exec b in ns: exclude it from the restore, or let an administrator apply it`,
    );
  });

  test('cannot fill the message, or put control characters into it', async () => {
    const { said } = scene([]);
    const rules = [{ ...PODS, verbs: [`\u001b[2J${'x'.repeat(100_000)}`] }];
    const message = await said('roles ns', { rules });
    expect(message).toContain('who lacks permission to \\u001b[2Jxxx');
    expect(message.length).toBeLessThan(1_000);
    expect(message).toContain('…: exclude it');
  });

  test('passes for a user who may escalate it: by name only if it exists', async () => {
    const { said } = scene(['escalate clusterroles x']);
    expect(await said('clusterroles', { rules: [PODS] }, {})).toBe('allowed');
    expect(await said('clusterroles', { rules: [PODS] })).toContain('create pods/exec a');
  });

  test('that collects or collected other roles counts as everything', async () => {
    const collecting = { aggregationRule: { clusterRoleSelectors: [{}] } };
    const { said } = scene(['* *']);
    expect(await said('clusterroles', collecting)).toContain('permission to * *:');
    expect(await said('clusterroles', { rules: [] }, collecting)).toContain('permission to * *:');
    expect(await scene(['* *', '* path *']).said('clusterroles', collecting)).toBe('allowed');
  });

  test('with billions of permissions is refused without a question about them', async () => {
    const many = Array.from({ length: 50_000 }, (_, at) => `${at}`);
    const { asked, said } = scene([]);
    const rules = [{ apiGroups: many, resources: many, resourceNames: many, verbs: many }];
    expect(await said('roles ns', { rules })).toContain('grant more than 1024 permissions');
    expect(asked).toEqual(['escalate roles ns']);
  });
});

describe('a binding', () => {
  const to = (kind: string): JsonObject => ({ roleRef: { kind, name: 'r' } });
  const roles = { 'roles/ns/r': { rules: [PODS] }, 'clusterroles/r': { rules: [PODS] } };
  const held = ['create pods/exec a ns', 'create pods/exec b ns'];

  test.each(['Role', 'ClusterRole'])('to a %s grants its permissions in its namespace', async (kind) => {
    expect(await scene(held, roles).said('rolebindings ns', to(kind))).toBe('allowed');
    expect(await scene(held).said('rolebindings ns', to(kind))).toContain('which does not exist');
  });

  test('grants the permissions of a ClusterRole in the whole cluster, unless the user may bind it', async () => {
    const { said } = scene(held, roles);
    expect(await said('clusterrolebindings', to('ClusterRole'))).toContain('pods/exec a:');
    const binds = scene(['bind clusterroles r']);
    expect(await binds.said('clusterrolebindings', to('ClusterRole'))).toBe('allowed');
  });
});

test('guards of detectors always count, and those of windows for the whole cluster while they are open', () => {
  const { refuse } = guard;
  const detector = veleroDetector();
  const window = (name: string, more: object = {}, opener = 'Cluster'): RestoreWindow => ({
    metadata: { name, annotations: { [OPENER_SCOPE]: opener } },
    spec: { principals: [{ user: 'tool' }], expiresAt: '2026-11-21T13:00:00Z', guard: { refuse }, ...more },
  });
  const found = guardsOf(
    [detector, { ...detector, spec: { ...detector.spec, guard: { refuse } } }],
    [
      window('open'),
      window('closed', { close: true }),
      window('late', { expiresAt: '2026-11-21T11:00:00Z' }),
      window('tenant', {}, ''),
    ],
    NOW,
  );
  expect(found.map(({ by }) => by)).toEqual(['RestoreDetector velero', 'RestoreWindow open']);
});

import { expect, test } from 'vitest';

import { isJsonObject } from '../../../json/json.ts';
import { toJson } from '../../machinery/api-object.ts';
import { aggregatedRules } from '../controllers/role-aggregation.ts';
import { createStorage } from '../../machinery/storage/storage.ts';
import { bootstrapObjects } from './bootstrap.ts';
import { createAuthorizer, RBAC_GROUP } from './rbac.ts';
import { getPath, getSecret } from '../../../../test/support/sandbox/rbac-objects.ts';
import { ANONYMOUS, authenticated } from './authenticate.ts';

let uids = 0;
const objects = bootstrapObjects({ now: '2026-01-01T00:00:00Z', newUid: () => `uid-${(uids += 1)}` });

const PLURALS: Readonly<Record<string, string>> = {
  ClusterRole: 'clusterroles',
  ClusterRoleBinding: 'clusterrolebindings',
};

/** Binds each of admin, edit and view to the user of the same name; `edit` aggregates `view` in turn. */
function start() {
  const storage = createStorage();
  const roles = [...objects];
  for (const name of ['view', 'edit', 'admin']) {
    const index = roles.findIndex(({ kind, metadata }) => kind === 'ClusterRole' && metadata.name === name);
    const role = roles[index];
    if (role === undefined) throw new Error(`role ${name} does not exist`);
    const all = roles.filter(({ kind }) => kind === 'ClusterRole');
    const aggregated = { ...role, rules: aggregatedRules(role, all) };
    roles[index] = aggregated;
  }
  for (const object of roles) {
    const resource = PLURALS[object.kind];
    if (resource !== undefined) storage.create({ group: RBAC_GROUP, resource }, object);
  }
  return createAuthorizer(storage);
}

test('the namespaces exist, active and with their finalizer', () => {
  const namespaces = objects.filter(({ kind }) => kind === 'Namespace').map(toJson);
  expect(namespaces.map(({ metadata }) => isJsonObject(metadata) && metadata.name)).toEqual([
    'default',
    'kube-node-lease',
    'kube-public',
    'kube-system',
  ]);
  for (const namespace of namespaces) {
    expect(namespace).toMatchObject({ spec: { finalizers: ['kubernetes'] }, status: { phase: 'Active' } });
  }
});

test('every object has its own uid and a time, and RBAC objects are marked as defaults', () => {
  expect(new Set(objects.map(({ metadata }) => metadata.uid)).size).toBe(objects.length);
  for (const { kind, metadata } of objects) {
    expect(metadata.creationTimestamp).toBe('2026-01-01T00:00:00Z');
    if (kind !== 'Namespace') expect(metadata.labels?.['kubernetes.io/bootstrapping']).toBe('rbac-defaults');
  }
});

test('without a token only health endpoints are allowed', () => {
  const { authorize } = start();
  const allowed = (path: string) => authorize(ANONYMOUS, getPath(path)).allowed;
  expect(['/version', '/healthz', '/livez', '/readyz'].every(allowed)).toBe(true);
  expect(['/api', '/apis', '/openapi/v3', '/metrics', '/'].some(allowed)).toBe(false);
});

test('every user may discover resources and ask for their own permissions', () => {
  const { authorize } = start();
  const alice = authenticated({ username: 'alice', groups: [] });
  expect(
    ['/api', '/apis/apps/v1', '/openapi/v3'].every((path) => authorize(alice, getPath(path)).allowed),
  ).toBe(true);
  const review = {
    ...getSecret,
    verb: 'create',
    group: 'authorization.k8s.io',
    resource: 'selfsubjectaccessreviews',
  };
  expect(authorize(alice, { ...review, namespace: '', name: '' }).allowed).toBe(true);
  expect(authorize(alice, getSecret).allowed).toBe(false);
});

test.each([
  ['view', 'configmaps', 'get', true],
  ['view', 'secrets', 'get', false],
  ['view', 'configmaps', 'create', false],
  ['edit', 'configmaps', 'get', true],
  ['edit', 'secrets', 'update', true],
  ['edit', 'serviceaccounts/token', 'create', true],
  ['admin', 'secrets', 'delete', true],
])('%s, once aggregated: %s %s is %j', (role, resource, verb, allowed) => {
  const rules = start().roleRules({ kind: 'ClusterRole', name: role }, '');
  expect(rules.some((rule) => rule.resources.includes(resource) && rule.verbs.includes(verb))).toBe(allowed);
});

test('only admin may write roles in a namespace', () => {
  const { roleRules } = start();
  const mayBind = (name: string) =>
    roleRules({ kind: 'ClusterRole', name }, '').some(({ resources }) => resources.includes('rolebindings'));
  expect(['admin', 'edit', 'view'].map(mayBind)).toEqual([true, false, false]);
});

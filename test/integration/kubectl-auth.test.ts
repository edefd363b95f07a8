// suite: processes
/** Authorization through kubectl: `auth can-i`, impersonation and tokens. */
import { describe, expect, test } from 'vitest';

import { describeKubectl } from '../support/kubectl-suite.ts';
import { cells } from '../support/kubectl.ts';

const RBAC = 'rbac.authorization.k8s.io';

const SEED = [
  {
    apiVersion: `${RBAC}/v1`,
    kind: 'Role',
    metadata: { name: 'reader' },
    rules: [
      { apiGroups: ['infra.example.com'], resources: ['servers'], verbs: ['get', 'list'] },
      { apiGroups: [''], resources: ['secrets'], resourceNames: ['open'], verbs: ['get'] },
    ],
  },
  {
    apiVersion: `${RBAC}/v1`,
    kind: 'RoleBinding',
    metadata: { name: 'readers' },
    roleRef: { apiGroup: RBAC, kind: 'Role', name: 'reader' },
    subjects: [
      { apiGroup: RBAC, kind: 'User', name: 'bob' },
      { apiGroup: RBAC, kind: 'Group', name: 'devs' },
      { kind: 'ServiceAccount', name: 'robot', namespace: 'default' },
    ],
  },
  { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'robot' } },
];

describeKubectl('kubectl and permissions', SEED, (kubectl) => {
  const { says, refuses } = kubectl;

  describe('auth can-i', () => {
    test.concurrent.each([
      'list servers',
      'list servers --as=bob',
      'list servers --as=ann --as-group=devs',
      'get secret/open --as=bob',
      'list servers --as=system:serviceaccount:default:robot',
      'get /healthz --as=bob --as-group=system:authenticated',
    ])('yes: %s', async (question) => {
      expect(await says(`auth can-i ${question}`)).toBe('yes\n');
    });

    test.concurrent.each([
      'delete servers --as=bob',
      'list servers --as=bob -n kube-system',
      'list servers --as=bob --all-namespaces',
      'list servers --as=ann',
      'get secret/closed --as=bob',
      'get servers --subresource=status --as=bob',
      'get /metrics --as=bob',
    ])('no: %s', async (question) => {
      expect(await refuses(`auth can-i ${question}`)).toBe('no\n');
    });

    test.concurrent('--list shows the permissions', async () => {
      const lines = cells(await says('auth can-i --list --as=bob --as-group=devs'));
      expect(lines).toContainEqual(['Resources', 'Non-Resource URLs', 'Resource Names', 'Verbs']);
      expect(lines).toContainEqual(['secrets', '[]', '[open]', '[get]']);
      expect(lines).toContainEqual(['servers.infra.example.com', '[]', '[]', '[get list]']);
    });

    test.concurrent('warns about a resource that the server does not serve', async () => {
      expect(await says('auth can-i get unicorns')).toBe(
        "yes\nWarning: the server doesn't have a resource type 'unicorns'\n\n",
      );
    });
  });

  test.concurrent('auth whoami', async () => {
    expect(cells(await says('auth whoami'))).toEqual([
      ['ATTRIBUTE', 'VALUE'],
      ['Username', 'admin'],
      ['UID', 'admin-uid'],
      ['Groups', '[system:masters system:authenticated]'],
    ]);
    const asBob = 'auth whoami --as=bob --as-uid=7 --as-group=devs';
    expect(cells(await says(asBob)).slice(1)).toEqual([
      ['Username', 'bob'],
      ['UID', '7'],
      ['Groups', '[devs system:authenticated]'],
    ]);
  });

  describe('an impersonated request', () => {
    test.concurrent('has their permissions', async () => {
      expect(await says('get servers --as=bob')).toBe('No resources found in default namespace.\n');
      expect(await refuses('get pods --as=bob')).toBe(
        'Error from server (Forbidden): pods is forbidden: User "bob" cannot list resource "pods" in API group "" ' +
          'in the namespace "default"\n',
      );
      expect(await refuses('delete datacenter fra1 --as=bob')).toBe(
        'Error from server (Forbidden): datacenters.infra.example.com "fra1" is forbidden: User "bob" cannot delete ' +
          'resource "datacenters" in API group "infra.example.com" at the cluster scope\n',
      );
    });

    test.concurrent('requires the permission to impersonate', async () => {
      expect(await refuses('get servers --as=bob', { user: 'alice' })).toBe(
        'Error from server (Forbidden): servers.infra.example.com is forbidden: User "alice" cannot ' +
          'impersonate-on:user-info:list resource "servers" in API group "infra.example.com" in the namespace "default"\n',
      );
    });
  });

  describe('tokens', () => {
    test.concurrent('of a service account authenticate it', async () => {
      const token = await says('create token robot --duration=1h');
      const [, name, , groups] = cells(await says(`auth whoami --token=${token}`));
      expect(name).toEqual(['Username', 'system:serviceaccount:default:robot']);
      expect(groups).toEqual([
        'Groups',
        '[system:serviceaccounts system:serviceaccounts:default system:authenticated]',
      ]);
      expect(await says(`get servers --token=${token}`)).toBe('No resources found in default namespace.\n');
    });

    test.concurrent('that are invalid are refused', async () => {
      expect(await refuses('get servers --token=nonsense')).toBe(
        'error: You must be logged in to the server (Unauthorized)\n',
      );
      expect(await refuses('create token missing')).toContain('serviceaccounts "missing" not found');
    });
  });

  test.concurrent('auth reconcile', async () => {
    const binding = (role: string, user: string) => ({
      apiVersion: `${RBAC}/v1`,
      kind: 'RoleBinding',
      metadata: { name: 'reconciled', namespace: 'default' },
      roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: role },
      subjects: [{ apiGroup: RBAC, kind: 'User', name: user }],
    });
    const reconcile = (role: string, user: string) =>
      says('auth reconcile -f -', { stdin: binding(role, user) });
    expect(await reconcile('view', 'cat')).toContain('reconciliation required create');
    expect(await reconcile('view', 'dog')).toContain('reconciliation required update');
    expect(await reconcile('edit', 'dog')).toContain('reconciliation required recreate');
    expect(await says('auth can-i create configmaps --as=dog')).toBe('yes\n');
  });
});

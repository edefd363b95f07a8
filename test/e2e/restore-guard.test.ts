// suite: shared-plane, sandbox: long
/** What a restore must not bring, although its account may write everything (CVE-2026-66797). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { RestoreDetector } from '../../src/api/restore-detector.ts';
import type { RestoreGuard } from '../../src/api/restore-guard.ts';
import type { RestoreWindow } from '../../src/api/restore-window.ts';
import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import {
  apiServices,
  clusterRoles,
  customResourceDefinitions,
  roles,
  validatingAdmissionPolicies,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import { RESTORE_DETECTORS } from '../../src/runtime/resources.ts';
import {
  CLUSTER_ROLE_BINDINGS,
  createNamespace,
  RESTORE_WINDOWS,
  ROLE_BINDINGS,
  type Cluster,
} from '../support/cluster.ts';
import { outcomeOf, startGatehouse } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { definitionOf, resourceOf } from '../support/definitions.ts';
import { grant, restoreWindow } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { VELERO } from '../support/velero-client.ts';

const RBAC = 'rbac.authorization.k8s.io';
const TOOL = 'system:serviceaccount:tools:restore';
const SECRETS = { apiGroups: [''], resources: ['secrets'], verbs: ['get'] };
const CONFIG = { apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list'] };

let cluster: Cluster;
let replica: Replica;
let velero: KubeClient;
let tool: KubeClient;
/** May open windows, and read ConfigMaps in team-a as a member of a group. */
let alice: KubeClient;

const detector: RestoreDetector = {
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'RestoreDetector',
  metadata: { name: 'velero' },
  spec: {
    watch: { apiGroup: 'velero.io', version: 'v1', resource: 'restores' },
    namespaces: ['velero'],
    phasePath: 'status.phase',
    activeValues: ['InProgress'],
    principals: [{ user: VELERO.user }],
    guard: {
      refuse: ['Permissions', 'AdmissionObjects', 'CustomResourceDefinitions', 'APIServices'],
      rightsOf: { user: 'alice', groups: ['team-a'] },
    },
  },
};

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({
    prepare: async (fresh) => {
      await Promise.all(['team-a', 'team-b'].map((name) => createNamespace(fresh, name)));
      const open = { apiGroups: ['gatehouse.dev'], resources: ['restorewindows'], verbs: ['*'] };
      const [role = {}, binding = {}] = grant('readers', [], [CONFIG], 'team-a');
      const subjects = [{ apiGroup: RBAC, kind: 'Group', name: 'team-a' }];
      const members: KubeObject = Object.assign(binding, { subjects });
      const view = { resources: ['clusterroles'], resourceNames: ['view'] };
      await fresh.apply(
        clusterAdmin('velero', VELERO.user),
        clusterAdmin('tool', TOOL),
        ...grant('alice', ['alice'], [open]),
        ...grant('alice-binds', ['alice'], [{ apiGroups: [RBAC], ...view, verbs: ['bind'] }], 'team-a'),
        bindingTo('ClusterRole', 'admin', { name: 'alice', namespace: 'team-b' }),
        role,
        members,
        definitionOf(resourceOf('example.com', 'olds', 'Old')),
        clusterRole('powerful', [SECRETS]),
      );
    },
  }));
  velero = cluster.impersonate(VELERO);
  tool = cluster.impersonate({ user: TOOL, groups: ['system:serviceaccounts', 'system:authenticated'] });
  alice = cluster.impersonate({ user: 'alice', groups: ['team-a', 'system:authenticated'] });
  await cluster.apply(detector);
  await eventually('changes of permissions are refused', async () =>
    (await outcomeOf(velero.create(CLUSTER_ROLE_BINDINGS, forged, { dryRun: true }))).includes('guard'),
  );
  await eventually('CRDs are refused', async () =>
    (await outcomeOf(velero.create(customResourceDefinitions, crd('probes'), { dryRun: true }))).includes(
      'spec.guard',
    ),
  );
});

afterAll(() => cluster.stop());

const clusterRole = (name: string, rules: readonly object[], more: object = {}): KubeObject =>
  Object.assign({ apiVersion: `${RBAC}/v1`, kind: 'ClusterRole', metadata: { name } }, { rules }, more);
const forged = clusterAdmin('forged', 'mallory');
const crd = (plural: string) => definitionOf(resourceOf('example.com', plural, plural));
const bindingTo = (kind: string, name: string, as = { name, namespace: 'team-a' }): KubeObject => {
  const [, binding = {}] = grant(as.name, ['alice'], [], as.namespace);
  return Object.assign(binding, { roleRef: { apiGroup: RBAC, kind, name } });
};
const roleIn = (name: string, rules: readonly object[]): KubeObject => {
  const [role = {}] = grant(name, [], rules, 'team-a');
  return role;
};

describe('permissions beyond those of the user in rightsOf', () => {
  const escalate = { apiGroups: [RBAC], resources: ['clusterroles'], verbs: ['escalate'] };
  const visit = clusterRole('p', [{ nonResourceURLs: ['/metrics'], verbs: ['get'] }]);

  test.each([
    ['a binding to cluster-admin', CLUSTER_ROLE_BINDINGS, () => forged, '* *.*'],
    ['a role that reads Secrets', roles, () => roleIn('s', [CONFIG, SECRETS]), 'get secrets in team-a'],
    ['a path', clusterRoles, () => visit, 'get /metrics'],
    ['a binding to edit', ROLE_BINDINGS, () => bindingTo('ClusterRole', 'edit'), 'in team-a'],
  ])('are refused: %s', async (_what, resource, object, lacking) => {
    const said = await outcomeOf(velero.create(resource, object()));
    expect(said).toContain('RestoreDetector velero limits restores to the permissions of alice, who lacks');
    expect(said).toContain(lacking);
    expect(said).toContain('exclude it from the restore');
  });

  test('are refused in updates and by apply, and a label that adds a role to others counts', async () => {
    const patch = (change: object) =>
      outcomeOf(velero.patchMerge(clusterRoles, { name: 'powerful' }, change, { dryRun: true }));
    expect(await patch({ rules: [escalate] })).toContain('lacks permission to');
    const labels = { [`${RBAC}/aggregate-to-view`]: 'true' };
    expect(await patch({ metadata: { labels } })).toContain('get secrets');
    expect(await patch({ metadata: { labels: { 'velero.io/restore-name': 'r' } } })).toBe('allowed');
    expect(await patch({ rules: [SECRETS] })).toBe('allowed');
    const subjects = [{ apiGroup: RBAC, kind: 'User', name: 'mallory' }];
    const rebound = velero.patchMerge(CLUSTER_ROLE_BINDINGS, { name: 'tool' }, { subjects });
    expect(await outcomeOf(rebound)).toContain('* *.*');
    const applied = velero.apply(roles, roleIn('applied', [SECRETS]), {
      fieldManager: 'velero',
      force: true,
    });
    expect(await outcomeOf(applied)).toContain('get secrets');
  });
});

test('a role and a binding within these permissions pass', async () => {
  await velero.create(roles, roleIn('restored', [CONFIG]));
  await velero.create(ROLE_BINDINGS, bindingTo('Role', 'restored'));
  await velero.create(ROLE_BINDINGS, bindingTo('ClusterRole', 'view'));
  const large = bindingTo('ClusterRole', 'edit', { name: 'edit', namespace: 'team-b' });
  await velero.create(ROLE_BINDINGS, large);
});

describe('other objects', () => {
  const webhooks: KubeObject = { metadata: { name: 'forged' } };
  const service = { group: 'none.example.com', version: 'v1', groupPriorityMinimum: 1, versionPriority: 1 };
  const apiService: KubeObject = Object.assign(
    { metadata: { name: 'v1.none.example.com' } },
    { spec: { ...service, service: { namespace: 'team-a', name: 'forged' } } },
  );

  const shortNames = { spec: { names: { shortNames: ['o'] } } };
  const first = { spec: { versionPriority: 1 } };

  test.each([
    [
      'CustomResourceDefinitions',
      customResourceDefinitions,
      crd('news'),
      { name: 'olds.example.com' },
      shortNames,
    ],
    ['AdmissionObjects', validatingWebhookConfigurations, webhooks, { name: 'gatehouse' }, { webhooks: [] }],
    ['APIServices', apiServices, apiService, { name: 'v1.apps' }, first],
  ])('are refused, and updates of their metadata pass: %s', async (what, kind, object, ref, change) => {
    const message = `spec.guard refuses ${what} in restores: exclude`;
    const patch = (by: KubeClient, body: object) =>
      outcomeOf(by.patchMerge(kind, ref, body, { dryRun: true }));
    expect(await outcomeOf(velero.create(kind, object))).toContain(message);
    expect(await patch(velero, change)).toContain(message);
    expect(await patch(velero, { metadata: { labels: { a: 'b' } } })).toBe('allowed');
    const ownerReferences = [{ apiVersion: 'v1', kind: 'Namespace', name: 'gone', uid: 'gone' }];
    expect(await patch(velero, { metadata: { ownerReferences } })).toContain(message);
    expect(await outcomeOf(velero.delete(kind, ref, { dryRun: true }))).toContain(message);
    expect(await outcomeOf(cluster.admin.create(kind, object, { dryRun: true }))).toBe('allowed');
  });

  test('a forged dev session, which stops the leader for minutes, is refused', async () => {
    const annotations = { 'gatehouse.dev/dev-url': '{}' };
    const ref = { name: 'gatehouse' };
    const forging = velero.patchMerge(
      validatingWebhookConfigurations,
      ref,
      { metadata: { annotations } },
      { dryRun: true },
    );
    expect(await outcomeOf(forging)).toContain('spec.guard refuses AdmissionObjects');
  });

  test('admission policies pass: the API server lets no policy judge them', async () => {
    const rule = { apiGroups: ['none.example.com'], apiVersions: ['*'], operations: ['*'], resources: ['*'] };
    const spec = { validations: [{ expression: 'true' }], matchConstraints: { resourceRules: [rule] } };
    const policy: KubeObject = Object.assign({ metadata: { name: 'forged' } }, { spec });
    expect(await outcomeOf(velero.create(validatingAdmissionPolicies, policy, { dryRun: true }))).toBe(
      'allowed',
    );
  });
});

describe('the guard of a window', () => {
  const guard: RestoreGuard = { refuse: ['Permissions', 'CustomResourceDefinitions'] };
  const byTool = (object: KubeObject) => outcomeOf(tool.create(roles, object, { dryRun: true }));

  test('uses the permissions of the user that opens it, until it closes', async () => {
    const principals = [{ user: TOOL }];
    const opened = await alice.create(RESTORE_WINDOWS, restoreWindow('drill', { principals, guard }));
    expect(opened.spec.guard?.rightsOf).toMatchObject({
      user: 'alice',
      groups: ['team-a', 'system:authenticated'],
    });
    const secret = roleIn('w', [SECRETS]);
    await eventually('the guard is in force', async () =>
      (await byTool(secret)).includes('RestoreWindow drill'),
    );
    expect(await byTool(roleIn('w', [CONFIG]))).toBe('allowed');
    await eventually('CRDs are refused', async () =>
      (await outcomeOf(tool.create(customResourceDefinitions, crd('probes'), { dryRun: true }))).includes(
        'spec.guard',
      ),
    );
    const looser = { spec: { guard: { refuse: ['APIServices'] } } };
    const change = alice.patchMerge<RestoreWindow>(RESTORE_WINDOWS, { name: 'drill' }, looser);
    expect(await outcomeOf(change)).toContain('it cannot be changed');
    const close = (by: KubeClient) =>
      by.patchMerge<RestoreWindow>(RESTORE_WINDOWS, { name: 'drill' }, { spec: { close: true } });
    expect(await outcomeOf(close(tool))).toContain('a restorer may not write');
    await close(alice);
    await eventually('the guard has ended', async () => (await byTool(secret)) === 'allowed');
  });
});

test('without rightsOf, a detector refuses every new permission', async () => {
  const rightsOf = { spec: { guard: { rightsOf: null } } };
  await cluster.admin.patchMerge(RESTORE_DETECTORS, { name: 'velero' }, rightsOf);
  await eventually('everything is refused', async () =>
    (await outcomeOf(velero.create(roles, roleIn('x', [CONFIG]), { dryRun: true }))).includes(
      'RestoreDetector velero refuses new and changed permissions',
    ),
  );
});

// This test comes last: it ends the replica.
test('while no replica answers, the guard refuses, and updates of metadata pass', async () => {
  await replica.program.stop(15_000);
  expect(await outcomeOf(velero.create(customResourceDefinitions, crd('late')))).toContain(
    'spec.guard refuses',
  );
  expect(await outcomeOf(velero.create(roles, roleIn('late', [CONFIG])))).toContain('failed calling webhook');
  const labels = { metadata: { labels: { a: 'b' } } };
  expect(await outcomeOf(velero.patchMerge(roles, { namespace: 'team-a', name: 'restored' }, labels))).toBe(
    'allowed',
  );
});

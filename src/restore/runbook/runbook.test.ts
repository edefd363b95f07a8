import { describe, expect, test } from 'vitest';

import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { BackedUp, RunbookFacts, TargetCluster } from './facts.ts';
import { runbookOf } from './runbook.ts';

const ready = { conditions: [{ type: 'Ready', status: 'True' }] };

const item = (group: string, resource: string, metadata: object, kind = ''): BackedUp => ({
  resource: { group, resource },
  object: { apiVersion: `${group}/v1`, kind, metadata },
});

const policy = (name: string, more: object = {}, status: object = ready) =>
  ({
    metadata: { name },
    spec: {
      match: { apiGroups: ['infra.example.com'], resources: ['servers'] },
      validate: { references: [{ target: { apiGroup: 'infra.example.com', resource: 'datacenters' } }] },
      ...more,
    },
    status,
  }) as unknown as AdmissionPolicy;

const velero = (spec: object = {}, status: object = ready) =>
  ({
    metadata: { name: 'velero' },
    spec: {
      watch: { apiGroup: 'velero.io', version: 'v1', resource: 'restores' },
      phasePath: 'status.phase',
      activeValues: ['InProgress'],
      principals: [{ group: 'system:serviceaccounts:velero' }],
      namespaces: ['velero'],
      ...spec,
    },
    status,
  }) as unknown as RestoreDetector;

const server = item('infra.example.com', 'servers', {
  namespace: 'shop',
  name: 'db',
  ownerReferences: [{ apiVersion: 'infra.example.com/v1', kind: 'Rack', name: 'r1', uid: 'u1' }],
});
const datacenter = item('infra.example.com', 'datacenters', { name: 'fra1' });

function facts(changes: {
  readonly items?: readonly BackedUp[];
  readonly cluster?: Partial<TargetCluster>;
  readonly choices?: Partial<RunbookFacts['choices']>;
}): RunbookFacts {
  return {
    items: changes.items ?? [server, datacenter],
    cluster: {
      server: 'https://cluster.example.com',
      version: 'v1.36.2',
      served: new Set([
        'admissionpolicies.gatehouse.dev',
        'servers.infra.example.com',
        'datacenters.infra.example.com',
      ]),
      policies: [policy('servers')],
      detectors: [velero()],
      ...changes.cluster,
    },
    choices: {
      path: 'b1.tar.gz',
      backup: 'b1',
      veleroNamespace: 'velero',
      includeNamespaces: [],
      namespaceMapping: {},
      existingResourcePolicy: 'none',
      ...changes.choices,
    },
  };
}

/** The text of one step. */
function step(runbook: string, title: string): string {
  const found = runbook.split('\n## ').find((part) => part.split('\n')[0]?.endsWith(title));
  if (found === undefined) throw new Error(`the runbook has no step ${title}`);
  return found;
}

const stepOf = (title: string, changes: Parameters<typeof facts>[0]) =>
  step(runbookOf(facts(changes)), title);

test('a prepared cluster needs only the commands', () => {
  const runbook = runbookOf(facts({}));
  expect(runbook.split('\n')[0]).toBe('# Restore `b1`');
  expect(runbook).toContain('2 objects of 2 kinds in 1 namespace, into `https://cluster.example.com`');
  expect(step(runbook, 'Install first')).toContain('The cluster serves all kinds of the backup.');
  expect(step(runbook, 'Install first')).toContain('They govern 1 object of the backup.');
  expect(step(runbook, 'Check the detector')).toContain('opens a window without your help');
  expect(step(runbook, 'Restore')).toContain(
    'velero restore create --from-backup b1 --namespace velero --wait\n',
  );
});

test('the rehearsal selects what the restore selects', () => {
  expect(stepOf('Rehearse', {})).toContain(
    'gatehouse restore rehearse b1.tar.gz --policies-from-cluster --velero-namespace velero\n',
  );
  const choices = {
    ...{ path: 'my backups/b1.tar.gz', veleroNamespace: 'backups' },
    ...{ includeNamespaces: ['shop'], namespaceMapping: { shop: 'copy' } },
    existingResourcePolicy: 'update' as const,
  };
  const items = [server, datacenter, item('gatehouse.dev', 'admissionpolicies', { name: 'servers' })];
  expect(stepOf('Rehearse', { items, choices })).toContain(
    "gatehouse restore rehearse 'my backups/b1.tar.gz' --policies-from-cluster --velero-namespace backups " +
      '--include-namespaces shop --namespace-mappings shop:copy --existing-resource-policy update ' +
      '--exclude-resources admissionpolicies.gatehouse.dev --include-cluster-resources\n',
  );
});

test('an empty cluster: Gatehouse, the CRDs, the policies and the detector come first', () => {
  const definition = item('apiextensions.k8s.io', 'customresourcedefinitions', {
    name: 'servers.infra.example.com',
  });
  const runbook = runbookOf(
    facts({
      items: [
        server,
        datacenter,
        definition,
        item('gatehouse.dev', 'admissionpolicies', { name: 'servers' }),
      ],
      cluster: {
        served: new Set(['customresourcedefinitions.apiextensions.k8s.io']),
        policies: [],
        detectors: [],
      },
    }),
  );
  const first = step(runbook, 'Install first');
  expect(first).toContain('| `servers.infra.example.com` | 1 | in the backup: Velero restores it first |');
  expect(first).toContain('| `datacenters.infra.example.com` | 1 | **missing**');
  expect(first).not.toContain('`admissionpolicies.gatehouse.dev`');
  expect(first).toContain('kubectl apply -k deploy\n');
  expect(first).toContain('Policies that only the backup has: `servers`');
  expect(step(runbook, 'Check the detector')).toContain('kubectl apply -k deploy/detectors/velero\n');
  expect(step(runbook, 'Restore')).toContain('--exclude-resources admissionpolicies.gatehouse.dev');
});

test('a CRD of the backup does not count if Velero omits cluster-scoped objects', () => {
  const definition = item('apiextensions.k8s.io', 'customresourcedefinitions', {
    name: 'servers.infra.example.com',
  });
  const cluster = { served: new Set<string>() };
  const first = (includeNamespaces: readonly string[], items = [server, definition]) =>
    stepOf('Install first', { items, cluster, choices: { includeNamespaces } });
  const row = '| `servers.infra.example.com` | 1 | ';
  expect(first(['shop'])).toContain(`${row}**omitted** by Velero`);
  expect(first(['*'])).toContain(`${row}in the backup: Velero restores it first`);
  // the restore then has --include-cluster-resources
  expect(first(['shop'], [server, definition, datacenter])).toContain(`${row}in the backup`);
});

test('all namespaces without that of Gatehouse are restored, also if `*` selects them', () => {
  const account = item('', 'serviceaccounts', { namespace: 'gatehouse-system', name: 'default' });
  const restored = (includeNamespaces: readonly string[]) =>
    stepOf('Restore', { items: [server, datacenter, account], choices: { includeNamespaces } });
  const excluded = '--exclude-namespaces gatehouse-system --include-cluster-resources=true --wait';
  expect(restored([])).toContain(excluded);
  expect(restored(['*'])).toContain(`--include-namespaces '*' ${excluded}`);
  expect(restored(['shop'])).not.toContain('--exclude-namespaces');
});

test('cluster-scoped objects are restored although a namespace is excluded', () => {
  const account = item('', 'serviceaccounts', { namespace: 'gatehouse-system', name: 'default' });
  const items = [server, datacenter, account];
  expect(stepOf('Restore', { items })).toContain('Velero omits all cluster-scoped objects');
  expect(stepOf('Rehearse', { items })).toContain('gatehouse-system --include-cluster-resources\n');
  expect(runbookOf(facts({ items: [server, datacenter] }))).not.toContain('--include-cluster-resources');
});

test('a detector counts only if it is enabled and trusts the namespace of Velero', () => {
  const none = 'No RestoreDetector trusts';
  expect(stepOf('Check the detector', { cluster: { detectors: [velero({ namespaces: [] })] } })).toContain(
    none,
  );
  expect(stepOf('Check the detector', { choices: { veleroNamespace: 'backup' } })).toContain(
    `--patch '{"spec":{"namespaces":["backup"],"principals":[{"group":"system:serviceaccounts:backup"}]}}'`,
  );
  expect(stepOf('Check the detector', { cluster: { detectors: [velero({}, {})] } })).toContain('not ready');
});

test('a detector that watches no Restores opens no window', () => {
  const watching = (status: string) => ({ conditions: [...ready.conditions, { type: 'Watching', status }] });
  const found = (status: string) =>
    stepOf('Check the detector', { cluster: { detectors: [velero({}, watching(status))] } });
  expect(found('False')).toContain('It does not watch Restores');
  expect(found('False')).toContain('kubectl describe restoredetector velero\n');
  expect(found('True')).not.toContain('kubectl');
});

test('the rules of quiesce are listed with the number of objects that they pause', () => {
  const quiesce = [{ apiGroup: 'apps', resource: 'deployments', matchLabels: { app: 'operator' } }];
  const deployment = (name: string, app: string) =>
    item('apps', 'deployments', { namespace: 'shop', name, labels: { app } });
  const items = [deployment('a', 'operator'), deployment('b', 'web')];
  expect(stepOf('Pause controllers', { items, cluster: { detectors: [velero({ quiesce })] } })).toContain(
    '| `deployments.apps` | `app=operator` | `spec.replicas: 0` | 1 |',
  );
  expect(stepOf('Pause controllers', {})).toContain('The detector pauses nothing.');
});

test('a rule of quiesce names the namespaces into which Velero restores', () => {
  const operator = item('apps', 'deployments', { namespace: 'ops', name: 'o', labels: { app: 'o' } });
  const paused = (namespace: string) => {
    const rule = { apiGroup: 'apps', resource: 'deployments', matchLabels: { app: 'o' } };
    const detectors = [velero({ quiesce: [{ ...rule, namespaces: [namespace] }] })];
    const choices = { namespaceMapping: { ops: 'copy' } };
    return stepOf('Pause controllers', { items: [server, operator], cluster: { detectors }, choices });
  };
  const row = '| `deployments.apps` | `app=o` | `spec.replicas: 0` |';
  expect(paused('copy')).toContain(`${row} 1 |`);
  expect(paused('ops')).toContain(`${row} 0 |`);
});

test('workloads that may write governed objects and are not paused are listed', () => {
  const rbac = 'rbac.authorization.k8s.io';
  const operator = (name: string, labels: object): BackedUp => ({
    resource: { group: 'apps', resource: 'deployments' },
    object: {
      ...{ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { namespace: 'ops', name, labels } },
      spec: { template: { spec: { serviceAccountName: name } } },
    } as BackedUp['object'],
  });
  const role = (name: string, verb: string): BackedUp => ({
    resource: { group: rbac, resource: 'clusterroles' },
    object: {
      ...{ apiVersion: `${rbac}/v1`, kind: 'ClusterRole', metadata: { name } },
      rules: [{ apiGroups: ['infra.example.com'], resources: ['servers'], verbs: ['get', verb] }],
    } as BackedUp['object'],
  });
  const binding = (name: string, bound: string): BackedUp => ({
    resource: { group: rbac, resource: 'clusterrolebindings' },
    object: {
      ...{ apiVersion: `${rbac}/v1`, kind: 'ClusterRoleBinding', metadata: { name } },
      roleRef: { kind: 'ClusterRole', name: bound },
      subjects: [{ kind: 'ServiceAccount', namespace: 'ops', name }],
    } as BackedUp['object'],
  });
  const items = [
    ...[server, role('writes', 'create'), role('reads', 'list')],
    ...[operator('maker', { app: 'maker' }), binding('maker', 'writes')],
    ...[operator('reader', {}), binding('reader', 'reads'), operator('unbound', {})],
    ...[operator('paused', { app: 'paused' }), binding('paused', 'writes')],
  ];
  const quiesce = [{ apiGroup: 'apps', resource: 'deployments', matchLabels: { app: 'paused' } }];
  const paused = stepOf('Pause controllers', { items, cluster: { detectors: [velero({ quiesce })] } });
  expect(paused).toContain(
    '| `deployments.apps/maker` | `ops` | `app=maker` | `servers.infra.example.com` |',
  );
  expect(paused).not.toMatch(/apps\/(paused|reader|unbound)/);
});

test('the flags of Velero are repeated, and omitted cluster-scoped targets are included', () => {
  const choices = {
    includeNamespaces: ['shop'],
    namespaceMapping: { shop: 'store' },
    existingResourcePolicy: 'update',
  } as const;
  const runbook = runbookOf(facts({ choices }));
  const flags = '--include-namespaces shop --namespace-mappings shop:store --existing-resource-policy update';
  expect(step(runbook, 'Restore')).toContain(`${flags} --include-cluster-resources=true --wait`);
});

test('owner references are linked again only where a policy preserves them', () => {
  expect(stepOf('Check afterwards', {})).toContain('| `servers.infra.example.com` | 1 | **lost**');
  const policies = [policy('servers', { owners: { preserve: true } })];
  expect(stepOf('Check afterwards', { cluster: { policies } })).toContain(
    'linked again by the policy `servers`',
  );
});

test('a name in a backup can neither end a code span nor add a command', () => {
  const choices = { backup: "b'`1; rm -rf /\n## 7. Run this" };
  const runbook = runbookOf(facts({ choices }));
  expect(runbook.split('\n')[0]).toBe("# Restore `b''1; rm -rf / ## 7. Run this`");
  expect(runbook).toContain("--from-backup 'b'\\''`1; rm -rf / ## 7. Run this' --namespace");
  expect(runbook.match(/^## /gm)).toHaveLength(6);
});

test('each command names the cluster for which the plan was made', () => {
  const choices = { kubeconfig: 'my config', context: 'prod' };
  const cluster = { policies: [policy('servers', {}, {})], served: new Set<string>(), detectors: [] };
  const lines = [
    ...runbookOf(facts({ choices, cluster })).split('\n'),
    ...runbookOf(facts({ choices, cluster: { detectors: [velero({}, {})] } })).split('\n'),
  ].filter((line) => /^(?:gatehouse|kubectl|velero) /.test(line));
  expect(lines).toHaveLength(18);
  for (const line of lines)
    expect(line).toMatch(
      line.startsWith('velero')
        ? / --kubeconfig 'my config' --kubecontext prod$/
        : / --kubeconfig 'my config' --context prod$/,
    );
});

describe('forged metadata', () => {
  const forged = (group: string, resource: string, metadata: object): BackedUp =>
    item(group, resource, { name: 'f', ...metadata });
  const rbac = 'rbac.authorization.k8s.io';
  const withFields = (found: BackedUp, fields: object): BackedUp => ({
    ...found,
    object: { ...found.object, ...fields },
  });
  const rights = [
    withFields(forged(rbac, 'clusterroles', {}), {
      rules: [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }],
    }),
    withFields(forged(rbac, 'clusterrolebindings', {}), {
      roleRef: { kind: 'ClusterRole', name: 'f' },
      subjects: [{ kind: 'ServiceAccount', namespace: '', name: 'default' }],
    }),
  ];

  test.each([
    ['labels that are null', { labels: null }],
    ['labels that are a list', { labels: [['a']] }],
    ['a label that is an object', { labels: { a: { toString: 1, valueOf: 1 } } }],
    ['a namespace that is a number', { namespace: 5 }],
    ['a namespace that is an object', { namespace: { toString: 1, valueOf: 1 } }],
    ['a namespace that is null', { namespace: null }],
  ])('%s: the workload is still listed', (_what, metadata) => {
    const items = [server, ...rights, forged('apps', 'deployments', metadata)];
    expect(stepOf('Pause controllers', { items })).toContain('| `deployments.apps/f` |');
  });
  test.each([null, '', 5])('a namespace %j of a target does not hide that Velero omits it', (namespace) => {
    const items = [server, forged('infra.example.com', 'datacenters', { namespace })];
    const choices = { includeNamespaces: ['shop'] };
    const runbook = runbookOf(facts({ items, choices }));
    expect(runbook).toContain('in 1 namespace,');
    expect(step(runbook, 'Restore')).toContain('--include-cluster-resources=true');
  });
  test.each([null, 'text', 3])('owner references %j are no owners', (ownerReferences) => {
    const items = [forged('infra.example.com', 'servers', { ownerReferences })];
    expect(stepOf('Check afterwards', { items })).not.toContain('Objects with owners');
  });
});

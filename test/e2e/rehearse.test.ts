// suite: shared-plane, sandbox: yes
/** `gatehouse restore rehearse` and `gatehouse review --cluster`: commands that work without a replica. */
import { describe, afterAll, beforeAll, expect, test } from 'vitest';

import {
  applyExamples,
  createNamespace,
  DATACENTERS,
  established,
  SERVERS,
  startCluster,
  type Cluster,
} from '../support/cluster.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { configMaps, pods } from '../../src/kube/well-known.ts';
import { untilRefused } from '../support/gatehouse-cluster.ts';
import { datacenter, server, grant } from '../support/objects.ts';
import { runGatehouse, writeFiles, type Ran, runReview } from '../support/review-command.ts';
import { fileFolder } from '../support/folder.ts';
import { definitionOf, versionOf, resourceOf } from '../support/definitions.ts';

let cluster: Cluster;
const folder = fileFolder('rehearse');

beforeAll(async () => {
  cluster = await startCluster();
  await cluster.applyFolder('base/crds');
  await established(cluster, 'admissionpolicies.gatehouse.dev');
  await applyExamples(cluster);
  await createNamespace(cluster, 'shop');
  await cluster.admin.create(DATACENTERS, datacenter('fra1'));
  await cluster.admin.create(SERVERS, server('shop', 'web', 'fra1'));
  await cluster.admin.create(SERVERS, server('shop', 'lost', 'gone'));
});

afterAll(() => cluster.stop());

interface Printed {
  readonly objects: readonly { readonly object: string; readonly result: string }[];
  readonly summary: { readonly restored: number; readonly lost: number };
  readonly findings: readonly {
    readonly severity: string;
    readonly reason: string;
    readonly object: string;
    readonly message: string;
  }[];
}

const rehearse = (...args: readonly string[]): Promise<Ran> =>
  runGatehouse(['restore', 'rehearse', ...args, '-o', 'json'], { cwd: folder });

/** @returns what `-o json` printed */
function printedBy({ stdout, stderr }: Ran): Printed {
  expect(stdout, stderr).not.toBe('');
  return JSON.parse(stdout) as Printed;
}

test('--from-cluster restores what is stored now, with its policies, into an empty cluster', async () => {
  const { minor } = cluster.plane.version;
  const ran = await rehearse(
    ...['--from-cluster', '--kubeconfig', cluster.plane.kubeconfig('admin')],
    ...['--target-version', `1.${minor}`],
  );
  const { findings, summary } = printedBy(ran);
  const problems = findings.filter(({ severity }) => severity === 'problem');
  expect(problems.map(({ reason, object }) => `${reason} ${object}`)).toEqual([
    'TargetMissing servers.infra.example.com shop/lost',
  ]);
  expect(ran.code).toBe(1);
  expect(summary).toMatchObject({ lost: 0 });
});

test('--against compares with the objects of the target, and tries each new object there', async () => {
  await cluster.apply({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingWebhookConfiguration',
    metadata: { name: 'others' },
    webhooks: [
      {
        ...{
          name: 'config.example.com',
          sideEffects: 'None',
          admissionReviewVersions: ['v1'],
          timeoutSeconds: 1,
        },
        clientConfig: { service: { namespace: 'nowhere', name: 'others', path: '/' } },
        rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] }],
        objectSelector: { matchLabels: { checked: 'yes' } },
      },
    ],
  } as object);
  const checked = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { namespace: 'shop', name: 'c', labels: { checked: 'yes' } },
  };
  // The API server learns of the configuration later, through its own watch.
  await untilRefused('a checked ConfigMap', 'config.example.com', () =>
    cluster.admin.create(configMaps, checked, { dryRun: true }),
  );
  writeFiles(folder, {
    'backup/objects.json': JSON.stringify({
      apiVersion: 'v1',
      kind: 'List',
      items: [
        server('shop', 'web', 'muc1'),
        server('shop', 'new', 'fra1'),
        server('shop', 'other', 'muc1'),
        checked,
      ],
    }),
  });
  const ran = await rehearse('backup', '--against', cluster.plane.kubeconfig('admin'));
  const { findings } = printedBy(ran);
  expect(findings.map(({ severity, reason, object }) => `${severity} ${reason} ${object}`)).toEqual([
    'problem TargetMissing servers.infra.example.com shop/other',
    'problem WebhookUnreachable others config.example.com',
    'problem Refused configmaps shop/c',
    'note Deferred servers.infra.example.com shop/other',
    'note Exists servers.infra.example.com shop/web',
  ]);
  expect(ran.code).toBe(1);
});

test('each of two objects passes a dry run, but a ResourceQuota has room for one', async () => {
  await createNamespace(cluster, 'capped');
  const quotas = {
    group: '',
    version: 'v1',
    resource: 'resourcequotas',
    kind: 'ResourceQuota',
    namespaced: true,
  };
  const hard = { configmaps: '2' };
  const metadata = { namespace: 'capped', name: 'caps' };
  await cluster.admin.create(quotas, {
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata,
    spec: { hard },
  });
  await cluster.admin.patchStatus(quotas, metadata, { status: { hard, used: { configmaps: '1' } } });
  const map = (name: string) => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { namespace: 'capped', name },
  });
  writeFiles(folder, {
    'capped/a.json': JSON.stringify(map('a')),
    'capped/b.json': JSON.stringify(map('b')),
  });
  const ran = await rehearse('capped', '--against', cluster.plane.kubeconfig('admin'));
  const { findings } = printedBy(ran);
  expect(findings.filter(({ object }) => object.startsWith('configmaps'))).toEqual([
    {
      severity: 'problem',
      reason: 'OverQuota',
      object: 'configmaps capped/b',
      message:
        'resourcequotas capped/caps refuses it, because the sum exceeds configmaps 2: raise the quota before the restore',
    },
  ]);
});

test('--against tries each update, and expects the ServiceAccount of a Pod with the Pod', async () => {
  const core = (kind: string, name: string, more: object) => ({
    ...{ apiVersion: 'v1', kind, metadata: { namespace: 'shop', name } },
    ...more,
  });
  const fixed = (value: string) => core('ConfigMap', 'fixed', { immutable: true, data: { value } });
  const pod = (name: string, serviceAccountName: string) =>
    core('Pod', name, { spec: { serviceAccountName, containers: [{ name: 'a', image: 'a' }] } });
  await cluster.apply(fixed('now'));
  const items = [fixed('backup'), core('ServiceAccount', 'robot', {}), pod('a', 'robot'), pod('b', 'nobody')];
  writeFiles(folder, { 'updates/objects.json': JSON.stringify({ apiVersion: 'v1', kind: 'List', items }) });
  const ran = await rehearse(
    ...['updates', '--against', cluster.plane.kubeconfig('admin'), '--existing-resource-policy', 'update'],
  );
  // The sandbox does not run the admission plugin that refuses a Pod without its account.
  const answered = await cluster.admin
    .create(pods, pod('b', 'nobody') as KubeObject, { dryRun: true })
    .then(() => 'restored')
    .catch(() => 'refused');
  expect(printedBy(ran).objects.map(({ result, object }) => `${result} ${object}`)).toEqual([
    'restored serviceaccounts shop/robot',
    'kept configmaps shop/fixed',
    'restored pods shop/a',
    `${answered} pods shop/b`,
  ]);
});

test('a dry run is in the version of the backup, even if the target prefers another version', async () => {
  const racks = resourceOf('infra.example.com', 'racks', 'Rack');
  const version = (name: string, storage: boolean, required: readonly string[]) =>
    versionOf(name, { type: 'object', required, properties: { units: { type: 'integer' } } }, { storage });
  await cluster.apply(
    definitionOf(racks, { versions: [version('v1alpha2', false, ['units']), version('v1alpha1', true, [])] }),
  );
  await established(cluster, 'racks.infra.example.com');
  const rack = (name: string, version: string) => ({
    apiVersion: `infra.example.com/${version}`,
    kind: 'Rack',
    metadata: { namespace: 'shop', name },
  });
  const items = [rack('a', 'v1alpha1'), { ...rack('b', 'v1alpha2'), units: 1 }];
  writeFiles(folder, { 'racks/objects.json': JSON.stringify({ apiVersion: 'v1', kind: 'List', items }) });
  const ran = await rehearse('racks', '--against', cluster.plane.kubeconfig('admin'));
  const { findings, summary } = printedBy(ran);
  expect(findings.filter(({ object }) => object.startsWith('racks'))).toEqual([]);
  expect(summary.restored).toBe(2);
});

describe('gatehouse review --cluster judges stored objects by policies that are in force, and by policies that are not applied yet', () => {
  beforeAll(async () => {
    await cluster.admin.delete(SERVERS, { namespace: 'shop', name: 'lost' });
    // More objects than the audit reports in Events.
    for (let n = 0; n < 25; n++) await cluster.admin.create(SERVERS, server('shop', `lost-${n}`, 'gone'));
  });

  async function reviewCluster(...args: readonly string[]): Promise<Ran> {
    return await runReview(['--cluster', '--kubeconfig', cluster.plane.kubeconfig('admin'), ...args], {
      cwd: folder,
    });
  }

  const policy = (name: string, ...validate: readonly string[]) =>
    [
      'apiVersion: gatehouse.dev/v1alpha1',
      'kind: AdmissionPolicy',
      `metadata: { name: ${name} }`,
      'spec:',
      '  match: { apiGroups: [infra.example.com], resources: [servers] }',
      '  validate:',
      ...validate.map((line) => `    ${line}`),
    ].join('\n');

  test('the review lists every existing object that violates a policy of the cluster, and writes nothing', async () => {
    const { code, stdout, stderr } = await reviewCluster('-o', 'json');
    const report = JSON.parse(stdout) as { results: { object: { name: string } }[] };
    expect(report).toMatchObject({
      kind: 'ClusterReview',
      summary: { policies: 1, objects: 25, violations: 25, incomplete: 0 },
      policies: [{ name: 'servers', enforcement: 'Deny', checked: 26, objects: 25, violations: 25 }],
    });
    expect(report.results[0]).toEqual({
      object: { apiVersion: 'infra.example.com/v1', kind: 'Server', namespace: 'shop', name: 'lost-0' },
      policy: 'servers',
      violations: [
        {
          check: 'datacenter',
          field: 'spec.datacenter',
          message: expect.stringContaining('Datacenter "gone" not found') as unknown,
        },
      ],
    });
    expect(new Set(report.results.map(({ object }) => object.name))).toHaveLength(25);
    expect(stderr).toBe('');
    expect(code).toBe(1);
    const requests = cluster.plane.auditLog().filter(({ userAgent = '' }) => userAgent.endsWith('(review)'));
    expect(new Set(requests.map(({ verb }) => verb))).toEqual(new Set(['get', 'list']));
  });

  test('the review judges existing objects by a policy before its installation, including values that several objects share', async () => {
    writeFiles(folder, {
      'strict.yaml': policy(
        'strict',
        'unique: [{ name: place, paths: [spec.datacenter, metadata.name] }, { name: datacenter, paths: [spec.datacenter] }]',
        `rules: [{ name: site, expression: "object.spec.datacenter == 'gone'", message: only gone, fieldPath: spec.datacenter }]`,
      ),
    });
    const { code, stdout } = await reviewCluster('-p', 'strict.yaml');
    expect(stdout).toMatch(/^Server shop\/web +strict +spec\.datacenter: only gone \(rule site\)$/m);
    expect(stdout).toMatch(
      /^Server shop\/lost-0 +strict +spec\.datacenter: "gone" is held by servers\.infra\.example\.com "lost-1" in namespace "shop"/m,
    );
    expect(stdout).toMatch(/^strict +Deny +26 +26 +26$/m);
    expect(stdout).toContain('\n26 violations in 26 objects\n');
    expect(code).toBe(1);

    writeFiles(folder, { 'lenient.yaml': policy('lenient', 'rules: [{ expression: "true" }]') });
    const lenient = await reviewCluster('-p', 'lenient.yaml', '-o', 'junit');
    expect(lenient.stdout).toContain('<testcase name="26 objects without violations" classname="lenient"/>');
    expect(lenient.code).toBe(0);
  });

  test('a kind that the user lacks permission to read makes the review incomplete, and the output still shows the findings', async () => {
    const lists = (apiGroup: string, resource: string) => ({
      apiGroups: [apiGroup],
      resources: [resource],
      verbs: ['list'],
    });
    await cluster.apply(
      ...grant(
        'alice-reads',
        ['alice'],
        [lists('', 'namespaces'), lists('infra.example.com', 'datacenters')],
      ),
    );
    writeFiles(folder, {
      'policy.yaml': policy('both', 'rules: [{ expression: "false", message: "never" }]').replace(
        '[servers]',
        '[datacenters, servers]',
      ),
    });
    const { code, stdout } = await runReview(
      ['--cluster', '--kubeconfig', cluster.plane.kubeconfig('alice'), '-p', 'policy.yaml'],
      { cwd: folder },
    );
    expect(stdout).toMatch(/^Datacenter fra1 +both +never$/m);
    expect(stdout).toMatch(
      /^both +Deny +1 +1 +1 +incomplete: could not check servers\.infra\.example\.com: /m,
    );
    expect(stdout).toContain('; 1 of 1 policy incomplete\n');
    expect(code).toBe(2);
  });
});

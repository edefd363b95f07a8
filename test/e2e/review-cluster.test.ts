// suite: shared-plane, sandbox: long
/**
 * `gatehouse review --cluster`: judges stored objects by policies that are in force, and by policies that are not
 * applied yet.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';

import {
  applyExamples,
  createNamespace,
  DATACENTERS,
  established,
  SERVERS,
  startCluster,
  type Cluster,
} from '../support/cluster.ts';
import { admissionPolicy, datacenter, grant, server } from '../support/objects.ts';
import { runReview, writeFiles, type Ran } from '../support/review-command.ts';

let cluster: Cluster;
let folder: string;

beforeAll(async () => {
  cluster = await startCluster();
  await cluster.applyFolder('base/crds');
  await established(cluster, 'admissionpolicies.gatehouse.dev');
  await applyExamples(cluster);
  await createNamespace(cluster, 'shop');
  await cluster.admin.create(DATACENTERS, datacenter('fra1'));
  await cluster.admin.create(SERVERS, server('shop', 'web', 'fra1'));
  // More objects than the audit reports in Events.
  for (let n = 0; n < 25; n++) await cluster.admin.create(SERVERS, server('shop', `lost-${n}`, 'gone'));
});

afterAll(() => cluster.stop());

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-review-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
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
        message: expect.stringContaining('"gone" names no Datacenter') as unknown,
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

test('the review reports what it cannot judge, and does not succeed', async () => {
  writeFiles(folder, {
    'policy.yaml': policy(
      'racks',
      'references: [{ name: rack, path: spec.serial, target: { apiGroup: infra.example.com, resource: racks } }]',
    ),
  });
  const broken = await reviewCluster('-p', 'policy.yaml');
  expect(broken.stderr).toMatch(
    /^error: policy\.yaml:\d+:\d+: AdmissionPolicy racks: spec\.validate\.references\[0\]\.target: the API server serves no racks\.infra\.example\.com/m,
  );
  expect(broken.code).toBe(2);

  const gone = await runReview(['--cluster', '--kubeconfig', join(folder, 'gone')]);
  expect(gone.stderr).toContain('error: could not load the kubeconfig');
  expect(gone.code).toBe(2);
});

test('a kind that may not be read makes the review incomplete, and the output still shows the findings', async () => {
  const lists = (apiGroup: string, resource: string) => ({
    ...{ apiGroups: [apiGroup], resources: [resource], verbs: ['list'] },
  });
  await cluster.apply(
    ...grant('alice-reads', ['alice'], [lists('', 'namespaces'), lists('infra.example.com', 'datacenters')]),
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
  expect(stdout).toMatch(/^both +Deny +1 +1 +1 +incomplete: could not check servers\.infra\.example\.com: /m);
  expect(stdout).toContain('; 1 of 1 policy incomplete\n');
  expect(code).toBe(2);
});

test('a policy of the cluster that cannot be enforced makes the review incomplete, and the other policies still judge', async () => {
  const target = { apiGroup: 'infra.example.com', resource: 'racks' };
  await cluster.apply(
    admissionPolicy('racks', {
      match: { apiGroups: ['infra.example.com'], resources: ['servers'] },
      validate: { references: [{ name: 'rack', path: 'spec.serial', target }] },
    }),
  );
  const { code, stdout } = await reviewCluster();
  expect(stdout).toMatch(/^servers +Deny +26 +25 +25$/m);
  expect(stdout).toMatch(
    /^racks +Deny +0 +0 +0 +incomplete: the policy cannot be enforced: .*the API server serves no racks\.infra\.example\.com/m,
  );
  expect(code).toBe(2);
});

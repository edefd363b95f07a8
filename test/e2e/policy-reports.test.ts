// suite: shared-plane, sandbox: long, slow
/** The reports of the audit, with the permissions of deploy/components/policy-reports and the CRDs of both groups. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { Report } from '../../src/admission/reports/report.ts';
import { readManifests } from '../../src/cli/deploy-manifests.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import { ADMISSION_POLICIES, established, SERVERS, type Cluster } from '../support/cluster.ts';
import { USERS } from '../support/control-plane-users.ts';
import { enforceExamples, seeInForce, startGatehouse } from '../support/gatehouse-cluster.ts';
import { arrangementOf } from '../support/gatehouse.ts';
import {
  permissionsOf,
  permissionsUsed,
  purposesIn,
  refusedTo,
  rolesIn,
  wasMade,
} from '../support/grants.ts';
import { admissionPolicy, server } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import {
  CLUSTER_POLICY_REPORTS,
  CLUSTER_REPORTS,
  OPEN_REPORTS_CRDS,
  POLICY_REPORTS,
  POLICY_REPORTS_CRDS,
  REPORTS,
} from '../support/report-crds.ts';

/** Gatehouse asks every 15 seconds which group is served. */
const SOON = { timeoutMs: 60_000, everyMs: 250 };
const IN_SHOP = { namespace: 'shop', name: 'gatehouse-audit' };
const IN_CLUSTER = { name: 'gatehouse-audit' };
/** The controllers also report in `serve`. */
const WRITER = USERS[arrangementOf('both') === 'split' ? 'controllers' : 'gatehouse'].name;
const ROOT = join(import.meta.dirname, '..', '..');

let cluster: Cluster;

beforeAll(async () => {
  ({ cluster } = await startGatehouse({
    arrangement: 'both',
    settings: { 'policy-reports': 'true' },
    prepare: (prepared) => prepared.applyFolder('components/policy-reports'),
  }));
  await enforceExamples(cluster);
  await cluster.admin.create(SERVERS, server('shop', 'web-1', 'fra1'));
  await cluster.admin.create(SERVERS, server('shop', 'web-2', 'fra1'));
});

afterAll(() => cluster.stop());

async function install(crds: readonly KubeObject[]): Promise<void> {
  await cluster.apply(...crds);
  for (const { metadata } of crds) await established(cluster, metadata?.name ?? '');
}

/** A policy that objects with `word` in their name violate. */
const forbid = (
  name: string,
  word: string,
  resource = 'servers',
  others: readonly object[] = [],
): KubeObject => {
  const spec = {
    match: { apiGroups: ['infra.example.com'], apiVersions: ['v1'], resources: [resource] },
    validate: {
      rules: [
        { name: 'word', message: `no ${word}`, expression: `!object.metadata.name.contains('${word}')` },
        ...others,
      ],
    },
  };
  return admissionPolicy(name, spec);
};

const namesIn = ({ results }: Report) =>
  results.map(({ policy, resources }) => `${policy} ${resources?.[0]?.name ?? ''}`);

const see = (resource: Resource, ref: Parameters<Cluster['see']>[2], names: readonly string[]) =>
  cluster.see<Report>(
    `${resource.kind} with ${names.join()}`,
    resource,
    ref,
    (report) => namesIn(report).join() === names.join(),
    SOON.timeoutMs,
  );

const seeGone = (resource: Resource, ref: Parameters<Cluster['see']>[2]) =>
  eventually(`no ${resource.kind}`, async () => (await cluster.admin.get(resource, ref)) === undefined, SOON);

test('where only wgpolicyk8s.io is served, the violations of existing objects are in PolicyReports', async () => {
  await install(POLICY_REPORTS_CRDS);
  await cluster.apply(forbid('web', 'web'), forbid('places', 'fra', 'datacenters'));
  await seeInForce(cluster, 'web');
  const report = await see(POLICY_REPORTS, IN_SHOP, ['web web-1', 'web web-2']);
  expect(report).toMatchObject({
    scope: { apiVersion: 'v1', kind: 'Namespace', name: 'shop' },
    summary: { pass: 0, fail: 2, warn: 0, error: 0, skip: 0 },
    results: [
      {
        source: 'gatehouse',
        policy: 'web',
        rule: 'word',
        result: 'fail',
        message: expect.stringContaining('no web') as unknown,
        resources: [{ apiVersion: 'infra.example.com/v1', kind: 'Server', namespace: 'shop', name: 'web-1' }],
        timestamp: { seconds: expect.any(Number) as unknown, nanos: 0 },
      },
      {},
    ],
  });
  await see(CLUSTER_POLICY_REPORTS, IN_CLUSTER, ['places fra1']);
});

test('changes update the reports', async () => {
  await cluster.apply(forbid('places', 'fra', 'datacenters'), forbid('web', 'web-2'));
  await see(CLUSTER_POLICY_REPORTS, IN_CLUSTER, ['places fra1']);
  await see(POLICY_REPORTS, IN_SHOP, ['web web-2']);
  await cluster.apply(forbid('more-places', 'fra', 'datacenters'));
  await see(CLUSTER_POLICY_REPORTS, IN_CLUSTER, ['more-places fra1', 'places fra1']);
});

test('when openreports.io is served, the reports move there', async () => {
  const before = await cluster.admin.get<Report>(POLICY_REPORTS, IN_SHOP);
  await install(OPEN_REPORTS_CRDS);
  const report = await see(REPORTS, IN_SHOP, ['web web-2']);
  expect(report.results[0]?.timestamp).toEqual(before?.results[0]?.timestamp);
  expect(report.source).toBe('gatehouse');
  await see(CLUSTER_REPORTS, IN_CLUSTER, ['more-places fra1', 'places fra1']);
  await seeGone(POLICY_REPORTS, IN_SHOP);
  await seeGone(CLUSTER_POLICY_REPORTS, IN_CLUSTER);
  await cluster.apply(forbid('web', 'web'));
  await see(REPORTS, IN_SHOP, ['web web-1', 'web web-2']);
  await cluster.admin.delete(ADMISSION_POLICIES, { name: 'more-places' });
  await see(CLUSTER_REPORTS, IN_CLUSTER, ['places fra1']);
});

test('the reports of deleted policies are deleted', async () => {
  for (const name of ['web', 'places']) await cluster.admin.delete(ADMISSION_POLICIES, { name });
  await seeGone(REPORTS, IN_SHOP);
  await seeGone(CLUSTER_REPORTS, IN_CLUSTER);
});

test('the component grants what Gatehouse used, and no more', () => {
  const log = cluster.plane.auditLog();
  const roles = rolesIn(readManifests(join(ROOT, 'deploy', 'components', 'policy-reports')));
  const granted = roles.flatMap(permissionsOf);
  const used = permissionsUsed(log, WRITER);
  expect(granted.filter((one) => !used.has(one))).toEqual([]);
  expect(refusedTo(log, WRITER)).toEqual([]);
  const page = readFileSync(join(ROOT, 'docs', 'reference', 'permissions.md'), 'utf8');
  const purposes = purposesIn(page, 'gatehouse-controllers').filter(({ permission }) =>
    granted.includes(permission),
  );
  expect(purposes).toHaveLength(granted.length);
  const invented = purposes.filter(
    ({ permission, request }) => !wasMade(request, permission.split(' ')[0] ?? '', log, WRITER),
  );
  expect(invented).toEqual([]);
});

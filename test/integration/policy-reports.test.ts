/** The reports of the audit, against the sandbox: which kinds, which writes, and what stays untouched. */
import { afterEach, beforeEach, expect, test } from 'vitest';

import { collectFindings, type PolicyFindings } from '../../src/admission/reports/findings.ts';
import type { Report } from '../../src/admission/reports/report.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { createClient } from '../../src/kube/client.ts';
import { systemClock, type Clock } from '../../src/kube/clock.ts';
import { createDiscovery } from '../../src/kube/discovery.ts';
import type { Resource } from '../../src/kube/object.ts';
import { customResourceDefinitions } from '../../src/kube/well-known.ts';
import { createPolicyReportsReconciler } from '../../src/runtime/reports/policy-reports.ts';
import { policyOf } from '../support/admission/policy.ts';
import { connectCluster, createNamespace, established, type Cluster } from '../support/cluster.ts';
import { grant } from '../support/objects.ts';
import { OPEN_REPORTS_CRDS, POLICY_REPORTS, POLICY_REPORTS_CRDS, REPORTS } from '../support/report-crds.ts';
import { silent } from '../support/runtime/fixtures.ts';
import { startSandboxPlane } from '../support/sandbox-plane.ts';

let cluster: Cluster;
let offset: number;
let clock: Clock;
let findings: Map<string, PolicyFindings>;
let pending: string[];
let warnings: string[];
let reconcile: (user?: string) => Promise<unknown>;

beforeEach(async () => {
  cluster = await connectCluster(await startSandboxPlane());
  offset = 0;
  clock = {
    now: () => Date.now() + offset,
    monotonic: () => performance.now() + offset,
    after: systemClock.after,
  };
  findings = new Map();
  pending = [];
  warnings = [];
  for (const name of ['a', 'b']) await createNamespace(cluster, name);
  const log = { ...silent, warn: (_fields: object, message: string) => warnings.push(message) };
  const options = {
    discovery: createDiscovery(cluster.adminRest, clock),
    namespaces: undefined,
    findings: () => [...findings.values()],
    pending: () => pending,
    now: () => new Date(clock.now()),
    clock,
    log,
  };
  const asAdmin = createPolicyReportsReconciler({ ...options, client: createClient(cluster.adminRest) });
  reconcile = async (user) => {
    const { signal } = new AbortController();
    if (user === undefined) return await asAdmin('reports', signal);
    const client = cluster.impersonate({ user });
    return await createPolicyReportsReconciler({ ...options, client })('reports', signal);
  };
});

afterEach(async () => {
  await cluster.stop();
});

async function install(crds: readonly KubeObject[]): Promise<void> {
  await cluster.apply(...crds);
  for (const { metadata } of crds) await established(cluster, metadata?.name ?? '');
  later(6_000);
}

async function uninstall(crds: readonly KubeObject[]): Promise<void> {
  for (const { metadata } of crds)
    await cluster.admin.delete(customResourceDefinitions, { name: metadata?.name ?? '' });
}

const later = (ms: number): void => {
  offset += ms;
};

/** An audit ended: a bad object is `namespace/name`, or `name` if it is cluster-scoped. */
function audited(name: string, bad: readonly string[], problem?: string): void {
  const policy = policyOf({ validate: { rules: [{ expression: 'true' }] } });
  const collected = collectFindings({ name, enforcement: 'Deny' }, 10_000);
  for (const key of bad) {
    const [of = '', namespace] = key.split('/').toReversed();
    const metadata = { name: of, ...(namespace && { namespace }) };
    const object = { apiVersion: 'infra.example.com/v1', kind: 'Server', metadata };
    collected.add(object, [{ policy, reason: 'FieldValueInvalid', field: '', message: `${of} is bad` }]);
  }
  findings.set(name, collected.end(problem));
}

async function reports(resource: Resource): Promise<readonly Report[]> {
  return (await cluster.admin.listAll<Report>(resource)).items;
}

const messages = async (resource: Resource) =>
  (await reports(resource)).map(
    ({ metadata, results }) =>
      `${[metadata?.namespace, metadata?.name].filter(Boolean).join('/')}: ${results.map(({ message }) => message).join(', ')}`,
  );

const GROUPS = ['openreports.io', 'wgpolicyk8s.io'];
const WRITES = ['create', 'update', 'patch', 'delete'];
const writes = () =>
  cluster.plane
    .auditLog()
    .filter(({ verb, objectRef }) => WRITES.includes(verb) && GROUPS.includes(objectRef?.apiGroup ?? ''));

test('a kind that disappears between discovery and write fails the reconcile, and the next one recovers', async () => {
  await install([...POLICY_REPORTS_CRDS, ...OPEN_REPORTS_CRDS]);
  await reconcile();
  await uninstall(OPEN_REPORTS_CRDS);
  audited('servers', ['a/x']);
  await expect(reconcile()).rejects.toThrow('404');
  later(6_000);
  await reconcile();
  expect(await messages(POLICY_REPORTS)).toEqual(['a/gatehouse-audit: x is bad']);
});

test('where neither is served, it warns once and waits', async () => {
  audited('servers', ['a/x']);
  const again = await reconcile();
  expect(again).toMatchObject({ kind: 'requeue' });
  later(20_000);
  await reconcile();
  expect(warnings).toEqual([expect.stringContaining('serves no kind of policy report')]);
  await install(OPEN_REPORTS_CRDS);
  await reconcile();
  expect(await messages(REPORTS)).toEqual(['a/gatehouse-audit: x is bad']);
});

test('reports of others remain unchanged', async () => {
  await install(OPEN_REPORTS_CRDS);
  const empty = { results: [], summary: { pass: 7 } };
  const labels = { 'app.kubernetes.io/managed-by': 'gatehouse' };
  const others = [
    { metadata: { namespace: 'a', name: 'gatehouse-audit' }, ...empty },
    { metadata: { namespace: 'b', name: 'gatehouse-audit-x', labels }, ...empty },
    { metadata: { namespace: 'b', name: 'other', labels }, ...empty },
  ];
  for (const other of others) await cluster.admin.create(REPORTS, other);
  const before = await reports(REPORTS);
  audited('servers', ['a/x', 'b/y']);
  await reconcile();
  expect(await messages(REPORTS)).toContain('b/gatehouse-audit: y is bad');
  later(11 * 60_000);
  await reconcile();
  expect(warnings).toEqual([expect.stringContaining('belongs to another client')]);
  audited('servers', []);
  await reconcile();
  expect(await reports(REPORTS)).toEqual(before);
});

test('repairs reports that users edit or delete', async () => {
  await install(OPEN_REPORTS_CRDS);
  audited('servers', ['a/x', 'b/y']);
  await reconcile();
  const [edited] = await reports(REPORTS);
  await cluster.admin.patchMerge(REPORTS, { namespace: 'a', name: 'gatehouse-audit' }, { results: [] });
  await cluster.admin.delete(REPORTS, { namespace: 'b', name: 'gatehouse-audit' });
  later(11 * 60_000);
  await reconcile();
  expect(await messages(REPORTS)).toEqual(['a/gatehouse-audit: x is bad', 'b/gatehouse-audit: y is bad']);
  expect((await reports(REPORTS))[0]?.metadata?.uid).toBe(edited?.metadata?.uid);
});

test('a new leader waits for the first audits before it replaces reports, but not for ever', async () => {
  await install(OPEN_REPORTS_CRDS);
  audited('servers', ['a/x']);
  await reconcile();
  findings.clear();
  pending = ['servers'];
  await reconcile();
  expect(await messages(REPORTS)).toEqual(['a/gatehouse-audit: x is bad']);
  later(11 * 60_000);
  await reconcile();
  expect(await messages(REPORTS)).toEqual([]);
});

test('one refused report does not keep the others from being written', async () => {
  await install(OPEN_REPORTS_CRDS);
  audited('servers', ['a/x', 'b/y', 'gone/z']);
  await expect(reconcile()).rejects.toThrow('1 report could not be written or deleted');
  expect(await messages(REPORTS)).toEqual(['a/gatehouse-audit: x is bad', 'b/gatehouse-audit: y is bad']);
  await createNamespace(cluster, 'gone');
  await reconcile();
  expect(await messages(REPORTS)).toHaveLength(3);
});

test('without permission, it names the role to apply, and gives up after ten refused writes', async () => {
  await install(OPEN_REPORTS_CRDS);
  const bad = Array.from({ length: 20 }, (_, n) => `team-${n}/x`);
  audited('servers', bad);
  const advice = '(deploy/components/policy-reports)';
  await expect(reconcile('reader')).rejects.toThrow(advice);
  const rules = [{ apiGroups: GROUPS, resources: ['*'], verbs: ['get', 'list'] }];
  await cluster.apply(...grant('reader', ['reader'], rules));
  await expect(reconcile('reader')).rejects.toThrow(advice);
  expect(writes()).toHaveLength(10);
  expect(writes().map(({ responseStatus }) => responseStatus?.code)).toEqual(Array(10).fill(403));
});

test('10,000 violations in 60 namespaces: at most 2 MB in total and 20 writes a second', async () => {
  await install(OPEN_REPORTS_CRDS);
  const names = Array.from({ length: 60 }, (_, n) => `team-${n}`);
  for (const name of names) await createNamespace(cluster, name);
  const bad = Array.from({ length: 10_000 }, (_, n) => `team-${n % 60}/server-${n}`);
  audited('servers', bad);
  const seen = writes().length;
  await reconcile();
  const times = writes()
    .slice(seen)
    .map(({ stageTimestamp }) => Date.parse(stageTimestamp));
  expect(times.filter(Number.isFinite)).toHaveLength(60);
  const inOneSecond = times.map(
    (start) => times.filter((time) => time >= start && time < start + 1_000).length,
  );
  expect(Math.max(...inOneSecond)).toBeLessThanOrEqual(20);
  const stored = await reports(REPORTS);
  expect(Buffer.byteLength(JSON.stringify(stored))).toBeLessThanOrEqual(2_000_000);
  expect(stored.reduce((sum, { summary }) => sum + summary.fail, 0)).toBe(10_000);
});

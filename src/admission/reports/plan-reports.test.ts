import { expect, test } from 'vitest';

import { OWN_LABELS } from '../../api/group.ts';
import { policyOf } from '../../../test/support/admission/policy.ts';
import { collectFindings, type PolicyFindings } from './findings.ts';
import { planReports, REPORT_LIMITS, fairShares } from './plan-reports.ts';
import { isOwnReport, REPORT_FORMATS, renderReport, timesOf, type Report } from './report.ts';

interface Bad {
  readonly namespace?: string;
  readonly name: string;
  readonly message?: string;
  readonly field?: string;
  readonly check?: string;
}

function findings(
  name: string,
  bad: readonly Bad[],
  {
    enforcement = 'Deny',
    problem,
    limit = 100_000,
  }: Partial<Pick<PolicyFindings, 'enforcement' | 'problem'>> & { limit?: number } = {},
): PolicyFindings {
  const policy = policyOf({ validate: { rules: [{ expression: 'true' }] } });
  const collected = collectFindings({ name, enforcement }, limit);
  for (const { namespace, name: of, message = 'too many', field = '', ...check } of bad)
    collected.add(
      {
        apiVersion: 'infra.example.com/v1',
        kind: 'Server',
        metadata: { name: of, ...(namespace === undefined ? {} : { namespace }) },
      },
      [{ policy, reason: 'FieldValueInvalid', message, field, ...check }],
    );
  return collected.end(problem);
}

const rendered = (all: readonly PolicyFindings[], now = new Date(0), before: readonly Report[] = []) =>
  REPORT_FORMATS.map((format) =>
    planReports(all).map((one) => renderReport(one, format, timesOf(before, now))),
  );

const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value));

/** What the API server adds: managedFields, uid, creationTimestamp, resourceVersion, generation. */
const ADDED_BYTES = 600;

function expectBounded(all: readonly PolicyFindings[]): void {
  for (const reports of rendered(all)) {
    const sizes = reports.map((report) => bytesOf(report) + ADDED_BYTES);
    expect(Math.max(...sizes)).toBeLessThan(REPORT_LIMITS.reportBytes + 4_096);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(2_000_000);
    const counts = all.flatMap((one) => [...one.counts.values()]).reduce((sum, count) => sum + count, 0);
    const omitted = reports.flatMap(({ results }) =>
      results
        .filter(({ rule }) => rule === 'namespaces')
        .map(({ properties }) => Number(properties?.omitted)),
    );
    const inSummaries = reports.reduce((sum, { summary }) => sum + summary.fail + summary.warn, 0);
    expect(inSummaries + omitted.reduce((sum, one) => sum + one, 0)).toBe(counts);
  }
}

test('each namespace has one report, and cluster-scoped objects have the ClusterReport', () => {
  const all = [
    findings('servers', [
      { namespace: 'b', name: 'y', field: 'spec.units' },
      { namespace: 'a', name: 'x', check: 'units' },
      { name: 'whole' },
    ]),
    findings('racks', [{ namespace: 'b', name: 'z' }], { enforcement: 'Warn' }),
  ];
  const [open, older] = rendered(all, new Date('2026-11-21T12:00:00.7Z'));
  expect(open?.map(({ kind, metadata }) => [kind, metadata?.namespace, metadata?.name])).toEqual([
    ['ClusterReport', undefined, 'gatehouse-audit'],
    ['Report', 'a', 'gatehouse-audit'],
    ['Report', 'b', 'gatehouse-audit'],
  ]);
  const resource = { apiVersion: 'infra.example.com/v1', kind: 'Server', namespace: 'b' };
  const timestamp = { seconds: 1795262400, nanos: 0 };
  expect(open?.[2]).toEqual({
    apiVersion: 'openreports.io/v1alpha1',
    kind: 'Report',
    metadata: { namespace: 'b', name: 'gatehouse-audit', labels: OWN_LABELS },
    source: 'gatehouse',
    scope: { apiVersion: 'v1', kind: 'Namespace', name: 'b' },
    summary: { pass: 0, fail: 1, warn: 1, error: 0, skip: 0 },
    results: [
      {
        ...{ policy: 'racks', result: 'warn', message: 'too many', timestamp },
        resources: [{ ...resource, name: 'z' }],
      },
      {
        ...{
          policy: 'servers',
          rule: 'spec.units',
          result: 'fail',
          message: 'spec.units: too many',
          timestamp,
        },
        resources: [{ ...resource, name: 'y' }],
      },
    ],
  });
  expect(open?.[1]?.results[0]?.rule).toBe('units');
  expect(older?.map(({ apiVersion, kind }) => `${apiVersion} ${kind}`)).toEqual([
    'wgpolicyk8s.io/v1alpha2 ClusterPolicyReport',
    'wgpolicyk8s.io/v1alpha2 PolicyReport',
    'wgpolicyk8s.io/v1alpha2 PolicyReport',
  ]);
  expect(older?.[2]).not.toHaveProperty('source');
  expect(older?.[2]?.results.map(({ source }) => source)).toEqual(['gatehouse', 'gatehouse']);
});

test('without violations there is no report', () => {
  expect(planReports([findings('servers', [])])).toEqual([]);
});

test('an incomplete audit is an error in the ClusterReport', () => {
  const [report] = planReports([findings('servers', [], { problem: 'could not check servers: not served' })]);
  expect(report).toMatchObject({
    namespace: '',
    summary: { error: 1, fail: 0 },
    results: [{ policy: 'servers', result: 'error', message: 'could not check servers: not served' }],
  });
});

test('the order of the audit changes nothing, and a known result keeps its time in either format', () => {
  const bad = [
    { namespace: 'a', name: 'x' },
    { namespace: 'a', name: 'y' },
  ];
  const [open, older] = rendered([findings('p', bad), findings('o', bad)], new Date(1_000));
  const later = [findings('o', bad.toReversed()), findings('p', bad.toReversed())];
  expect(rendered(later, new Date(9_000), older)).toEqual([open, older]);
  const added = rendered([...later, findings('q', bad.slice(1))], new Date(9_000), open)[0]?.[0]?.results;
  expect(added?.map(({ timestamp }) => timestamp?.seconds)).toEqual([1, 1, 1, 1, 9]);
});

test.each<[string, (n: number) => string]>([
  ['one namespace', () => 'a'],
  ['100 namespaces', (n) => `team-${n % 100}`],
  ['namespaces of very different size', (n) => `team-${Math.floor(Math.log2(n + 1))}`],
  ['10,000 namespaces', (n) => `team-${n}`],
  ['10,000 namespaces with long names', (n) => `${'n'.repeat(55)}-${n}`],
])('10,000 violations in %s take at most 2 MB, with long messages too', (_what, namespaceOf) => {
  for (const message of ['names Datacenter fra1, which does not exist', 'ö"\n'.repeat(2_000)]) {
    const bad = Array.from({ length: 10_000 }, (_, n) => ({
      ...{ namespace: namespaceOf(n), name: `server-${n}`, message },
    }));
    expectBounded([findings('servers', bad)]);
    expectBounded([
      findings('servers', bad, { limit: 5_000, problem: message }),
      findings('racks', bad, { limit: 5_000, problem: message }),
    ]);
  }
});

test('most of 10,000 violations are listed, and the report says how many are not', () => {
  const bad = Array.from({ length: 10_000 }, (_, n) => ({
    namespace: `team-${n % 50}`,
    name: `server-${n}`,
  }));
  const reports = planReports([findings('servers', bad)]);
  const results = reports.flatMap((one) => one.results);
  const listed = results.filter(({ result }) => result === 'fail').length;
  expect(listed).toBeGreaterThan(6_000);
  const notes = results.filter(({ result }) => result === 'skip');
  expect(notes).toHaveLength(50);
  const omitted = notes.reduce((sum, { properties }) => sum + Number(properties?.omitted), 0);
  expect(omitted).toBe(10_000 - listed);
  expect(notes[0]?.message).toMatch(/^\d+ results not listed, but counted in the summary/);
  expect(reports.map(({ summary }) => [summary.fail, summary.skip])).toEqual(Array(50).fill([200, 1]));
});

test('the findings that the audit did not keep count as omitted', () => {
  const bad = Array.from({ length: 30 }, (_, n) => ({ namespace: 'a', name: `s${n}` }));
  const [report] = planReports([findings('servers', bad, { limit: 10 })]);
  expect(report?.summary).toEqual({ pass: 0, fail: 30, warn: 0, error: 0, skip: 1 });
  expect(report?.results.at(-1)?.properties).toEqual({ omitted: '20', listed: '10' });
});

test('a large report is split into numbered ones, whose summaries add up', () => {
  const bad = Array.from({ length: 5_000 }, (_, n) => ({ namespace: 'a', name: `server-${n}` }));
  const reports = planReports([findings('servers', bad)]);
  expect(reports.map(({ name }) => name)).toEqual([
    'gatehouse-audit',
    'gatehouse-audit-2',
    'gatehouse-audit-3',
  ]);
  expect(reports.reduce((sum, { summary }) => sum + summary.fail, 0)).toBe(5_000);
  for (const { results, summary } of reports) expect(summary.fail).toBe(results.length);
});

test('above the limit, the namespaces with most violations have a report, and the ClusterReport says so', () => {
  const bad = ['a', 'b', 'b', 'c', 'c', 'c', 'd'].map((namespace, n) => ({ namespace, name: `s${n}` }));
  const reports = planReports([findings('servers', bad)], { ...REPORT_LIMITS, namespaces: 2 });
  expect(reports.map(({ namespace }) => namespace)).toEqual(['', 'b', 'c']);
  expect(reports[0]?.results).toMatchObject([
    { result: 'skip', properties: { omitted: '2', namespaces: '2' } },
  ]);
});

test.each<[string, string, boolean]>([
  ['gatehouse-audit', 'gatehouse', true],
  ['gatehouse-audit-2', 'gatehouse', true],
  ['gatehouse-audit-12', 'gatehouse', true],
  ['gatehouse-audit-1', 'gatehouse', false],
  ['gatehouse-audit-2b', 'gatehouse', false],
  ['gatehouse-audits', 'gatehouse', false],
  ['my-gatehouse-audit', 'gatehouse', false],
  ['gatehouse-audit', 'Helm', false],
])('a report named %s and managed by %s: Gatehouse wrote it: %s', (name, manager, expected) => {
  expect(isOwnReport({ metadata: { name, labels: { 'app.kubernetes.io/managed-by': manager } } })).toBe(
    expected,
  );
});

test('a share is what is needed, or an equal part of the rest', () => {
  expect(fairShares([10, 500, 20, 400], 230)).toEqual([10, 100, 20, 100]);
  expect(fairShares([10, 20], 100)).toEqual([10, 20]);
  expect(fairShares([], 100)).toEqual([]);
});

import { expect, test } from 'vitest';

import { policyOf } from '../../../test/support/admission/policy.ts';
import { collectFindings, type PolicyFindings } from './findings.ts';
import { planReports, REPORT_LIMITS } from './plan-reports.ts';
import { isOwnReport, REPORT_FORMATS, renderReport, timesOf, type Report } from './report.ts';

type Bad = { readonly name: string } & Readonly<
  Partial<Record<'namespace' | 'message' | 'field' | 'check', string>>
>;

function findings(
  name: string,
  bad: readonly Bad[],
  { problem, limit = 100_000 }: Partial<Pick<PolicyFindings, 'problem'>> & { limit?: number } = {},
): PolicyFindings {
  const policy = policyOf({ validate: { rules: [{ expression: 'true' }] } });
  const collected = collectFindings({ name, enforcement: 'Deny' }, limit);
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
])('10,000 violations in %s take at most 2 MB, even with long messages', (_what, namespaceOf) => {
  for (const message of ['names Datacenter fra1, which does not exist', 'ö"\n'.repeat(2_000)]) {
    const bad = Array.from({ length: 10_000 }, (_, n) => ({
      namespace: namespaceOf(n),
      name: `server-${n}`,
      message,
    }));
    expectBounded([findings('servers', bad)]);
    expectBounded([
      findings('servers', bad, { limit: 5_000, problem: message }),
      findings('racks', bad, { limit: 5_000, problem: message }),
    ]);
  }
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

test('above the limit, only the namespaces with most violations have a report, which the ClusterReport notes', () => {
  const bad = ['a', 'b', 'b', 'c', 'c', 'c', 'd'].map((namespace, n) => ({ namespace, name: `s${n}` }));
  const reports = planReports([findings('servers', bad)], { ...REPORT_LIMITS, namespaces: 2 });
  expect(reports.map(({ namespace }) => namespace)).toEqual(['', 'b', 'c']);
  expect(reports[0]?.results).toMatchObject([
    { result: 'skip', properties: { omitted: '2', namespaces: '2' } },
  ]);
});

test('a copy of a report in another namespace is not of Gatehouse', () => {
  const metadata = { name: 'gatehouse-audit', labels: { 'app.kubernetes.io/managed-by': 'gatehouse' } };
  const scope = { apiVersion: 'v1', kind: 'Namespace', name: 'shop' };
  const inNamespace = (namespace: string) => isOwnReport({ metadata: { ...metadata, namespace }, scope });
  expect(inNamespace('shop')).toBe(true);
  expect(inNamespace('mail')).toBe(false);
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

import { expect, test } from 'vitest';

import { createCluster, NEVER, OWN_NAMESPACE } from '../../../test/support/runtime/fixtures.ts';
import { configMaps } from '../../kube/well-known.ts';
import type { ConfigMap } from '../certificates/ca-bundle.ts';
import {
  createReportReconciler,
  parseReport,
  reportOf,
  REPORT_EVERY_MS,
  SERVED_CERTS_CONFIGMAP,
} from './report.ts';
import type { StaleService } from './served-certs.ts';

const NOW = new Date('2026-03-01T12:00:00Z');
const COUNTS = { current: 7, stale: 12, foreign: 1, unreachable: 2, plain: 5, unknown: 3 };

const stale = (name: string, pods: number, day: number): StaleService => ({
  service: {
    ...{ namespace: 'shop', name, uid: 'u', secretName: `${name}-tls` },
    leaf: 'B',
    serverName: '',
    endpoints: [],
  },
  servers: Array.from({ length: pods }, (_, number) => ({
    ...{ pod: `${name}-${number}`, address: '10.0.0.1', since: number * 1_000 },
    notAfter: new Date(Date.UTC(2026, 2, day)),
  })),
});

const sinceOf = (at: number) => new Date(NOW.getTime() - 60_000 + at);
const report = (now = NOW) => reportOf(COUNTS, [stale('db', 12, 9), stale('api', 1, 8)], now, sinceOf);

test('the report names the Services whose certificate ends first, with their first pods', () => {
  expect(report().endpoints).toEqual({ current: 7, stale: 12, foreign: 1, unreachable: 2 });
  expect(report().stale.map(({ service, count, pods }) => [service, count, pods.length])).toEqual([
    ['api', 1, 1],
    ['db', 12, 10],
  ]);
  expect(report().stale[0]).toMatchObject({
    since: '2026-03-01T11:59:00Z',
    notAfter: '2026-03-08T00:00:00Z',
  });
});

test('a report of thousands of Services fits into a ConfigMap', () => {
  const services = Array.from({ length: 5_000 }, (_, number) => stale(`${'s'.repeat(63)}${number}`, 20, 9));
  expect(JSON.stringify(reportOf(COUNTS, services, NOW, sinceOf)).length).toBeLessThan(900_000);
});

test('the ConfigMap holds the report, no backup contains it, and its time is renewed', async () => {
  let now = NOW;
  const { client, objects } = createCluster();
  const stored = objects<ConfigMap>(configMaps);
  const reconcile = createReportReconciler(client, OWN_NAMESPACE, () => report(now));
  const run = () => reconcile(SERVED_CERTS_CONFIGMAP, NEVER);
  await run();
  const written = stored.read(`${OWN_NAMESPACE}/gatehouse-served-certs`);
  expect(parseReport(written ?? {})).toEqual(report());
  expect(written?.metadata?.labels).toMatchObject({ 'velero.io/exclude-from-backup': 'true' });
  for (const [passedMs, writes] of [
    [60_000, 1],
    [60_000 + REPORT_EVERY_MS, 2],
  ] as const) {
    now = new Date(NOW.getTime() + passedMs);
    await run();
    expect(stored.writes()).toBe(writes);
  }
});

test.each(['', 'x', '[]', '{"checkedAt":5}', '{"stale":[{"pods":7}]}'])('%j is not a report', (text) => {
  expect(parseReport({ data: { 'report.json': text } })).toBeUndefined();
});

test('a damaged report shows empty fields', () => {
  const text = '{"checkedAt":"2026-03-01T12:00:00Z","stale":[{"pods":[1,"a"],"service":{}},7]}';
  expect(parseReport({ data: { 'report.json': text } })).toMatchObject({
    endpoints: { current: 0 },
    stale: [{ service: '', pods: ['a'] }, { pods: [] }],
  });
});

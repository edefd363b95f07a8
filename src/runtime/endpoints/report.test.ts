import { expect, test } from 'vitest';

import type { KubeObject } from '../../json/kube-object.ts';
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

interface Stored extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

/** One ConfigMap in memory. */
async function scene() {
  let stored: Stored | undefined;
  let writes = 0;
  let now = NOW;
  const write = (_resource: unknown, object: KubeObject) => {
    stored = object;
    writes += 1;
    return Promise.resolve(object);
  };
  const client = {
    get: () => Promise.resolve(stored),
    create: write,
    replace: write,
  } as unknown as Parameters<typeof createReportReconciler>[0];
  const reconcile = createReportReconciler(client, 'gatehouse-system', () => report(now));
  const run = () => reconcile(SERVED_CERTS_CONFIGMAP, new AbortController().signal);
  await run();
  return {
    run,
    stored: () => stored,
    writes: () => writes,
    pass: (ms: number) => (now = new Date(now.getTime() + ms)),
  };
}

test('the ConfigMap holds the report, and no backup contains it', async () => {
  const { stored } = await scene();
  expect(parseReport(stored() ?? {})).toEqual(report());
  expect(stored()?.metadata).toMatchObject({
    ...{ namespace: 'gatehouse-system', name: 'gatehouse-served-certs' },
    labels: { 'velero.io/exclude-from-backup': 'true' },
  });
});

test('the same content is written again only to renew its time', async () => {
  const { run, writes, pass } = await scene();
  pass(60_000);
  await run();
  expect(writes()).toBe(1);
  pass(REPORT_EVERY_MS);
  await run();
  expect(writes()).toBe(2);
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

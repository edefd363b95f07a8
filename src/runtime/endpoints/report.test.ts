import { expect, test } from 'vitest';
import { createCluster, NEVER, OWN_NAMESPACE } from '../../../test/support/runtime/fixtures.ts';
import { configMaps } from '../../kube/well-known.ts';
import type { ConfigMap } from '../certificates/ca-bundle.ts';
import {
  announceAt,
  announcementOf,
  createReportReconciler,
  parseReport,
  reportOf,
  REPORT_EVERY_MS,
  SERVED_CERTS_CONFIGMAP,
  type Announced,
} from './report.ts';
import type { StaleService } from './served-certs.ts';

const NOW = new Date('2026-03-01T12:00:00Z');
const COUNTS = { current: 7, stale: 12, foreign: 1, unreachable: 2, plain: 5, unknown: 3 };

const SERVED = { namespace: 'shop', uid: 'u', leaf: 'B', serverName: '', endpoints: [] };
const stale = (name: string, pods: number, day: number): StaleService => ({
  service: { ...SERVED, name, secretName: `${name}-tls` },
  servers: Array.from({ length: pods }, (_, number) => ({
    pod: `${name}-${number}`,
    address: '10.0.0.1',
    since: number * 1_000,
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
  const times = { since: '2026-03-01T11:59:00Z', notAfter: '2026-03-08T00:00:00Z' };
  expect(report().stale[0]).toMatchObject(times);
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

/** The reasons of the Events for these numbers of stale pods, a minute apart. */
function told(...counts: readonly number[]): readonly string[] {
  let announced: Announced | undefined;
  return counts.map((count, minute) => {
    const next = announcementOf(count === 0 ? undefined : stale('db', count, 9), announced, minute * 60_000);
    announced = next.announced;
    return next.event?.reason ?? '';
  });
}

test('the Event names the first pods, the Secret and the first end', () => {
  const { event } = announcementOf(stale('db', 5_000, 9), undefined, 0);
  expect(event).toMatchObject({ type: 'Warning', reason: 'StaleCertificate' });
  expect(event?.message).toMatch(
    /^pods db-0, .* and 4990 more still present an earlier certificate than secret db-tls contains; it ends at 2026-03-09T00:00:00Z: restart/,
  );
});

test('one Event per change, not one per handshake, and again before Kubernetes forgets it', () => {
  expect(told(1, 1, 1)).toEqual(['StaleCertificate', '', '']);
  expect(told(1, 2, 1)).toEqual(['StaleCertificate', 'StaleCertificate', '']);
  expect(told(2, 1, 0, 0)).toEqual(['StaleCertificate', '', 'CertificateReloaded', '']);
  expect(told(...Array.from({ length: 120 }, () => 1)).filter((reason) => reason !== '')).toHaveLength(3);
});

test('the more often pods were announced, the longer further pods are gathered', () => {
  const after = (times: number) => announceAt({ secretName: '', pods: new Set(), at: 0, times }, 0) / 1_000;
  expect([announceAt(undefined, 0) / 1_000, after(1), after(2), after(50)]).toEqual([10, 20, 40, 600]);
});

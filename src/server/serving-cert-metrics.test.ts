import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { createServingCertMetrics } from './serving-cert-metrics.ts';

const now = new Date('2026-11-21T12:00:00Z');
const inDays = (days: number) => new Date(now.getTime() + days * 86_400_000);

test('certs are shown as they stand at the scrape, and not at all by a replica that does not lead', async () => {
  const registry = new Registry();
  const { servingCerts, issue } = createServingCertMetrics([registry]);
  const text = () => registry.metrics();
  expect(await text()).not.toContain('gatehouse_serving_reissue_waiting 0');

  const leaves = [
    { notAfter: inDays(2), generation: 'aaaaaaaa' },
    { notAfter: inDays(89), generation: 'aaaaaaaa' },
    { notAfter: inDays(-1), generation: undefined },
  ];
  servingCerts({
    all: () => leaves,
    stoppedByReason: () => new Map([['NotRequested', 1]]),
    waiting: () => 7,
    now: () => now,
  });
  for (const scrape of [await text(), await text()]) {
    expect(scrape).toContain('gatehouse_serving_leaf_not_after_seconds_bucket{le="0"} 1');
    expect(scrape).toContain('gatehouse_serving_leaf_not_after_seconds_bucket{le="259200"} 2');
    expect(scrape).toContain('gatehouse_serving_leaf_not_after_seconds_count 3');
    expect(scrape).toContain('gatehouse_serving_leaf_generation{generation="aaaaaaaa"} 2');
    expect(scrape).toContain('gatehouse_serving_leaf_generation{generation="unknown"} 1');
    expect(scrape).toContain('gatehouse_serving_leaf_not_renewed{reason="NotRequested"} 1');
    expect(scrape).toContain('gatehouse_serving_reissue_waiting 7');
  }
  issue('issued', 'Missing');
  expect(await text()).toContain('gatehouse_issue_total{result="issued",reason="Missing"} 1');

  servingCerts(undefined);
  expect(await text()).not.toMatch(/gatehouse_serving_leaf_generation\{|reissue_waiting \d/);
});

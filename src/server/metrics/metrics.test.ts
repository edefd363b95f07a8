import { expect, test, vi } from 'vitest';

import { createMetrics, type Metrics } from './metrics.ts';

/** The samples of one metric, as Prometheus reads them. */
async function samples(metrics: Metrics, name: string): Promise<readonly string[]> {
  return (await metrics.text()).split('\n').filter((line) => line.startsWith(name));
}

test('a workqueue reports under the metric names of client-go', async () => {
  const metrics = createMetrics();
  const queue = metrics.queue('policies');
  queue.depth(3);
  queue.added();
  queue.added();
  queue.retried();
  queue.queueDuration(0.2);
  queue.workDuration(2);
  const lines = await samples(metrics, 'workqueue_');
  for (const line of [
    'workqueue_depth{name="policies"} 3',
    'workqueue_adds_total{name="policies"} 2',
    'workqueue_retries_total{name="policies"} 1',
    'workqueue_queue_duration_seconds_count{name="policies"} 1',
    'workqueue_work_duration_seconds_sum{name="policies"} 2',
  ]) {
    expect(lines).toContain(line);
  }
});

test('the load of a workqueue is read at each scrape, from its newest instance only', async () => {
  const metrics = createMetrics();
  let seconds = 1;
  metrics.queueLoad('authority', () => ({ unfinishedWorkSeconds: 99, longestRunningProcessorSeconds: 99 }));
  metrics.queueLoad('authority', () => ({
    unfinishedWorkSeconds: 2 * seconds,
    longestRunningProcessorSeconds: seconds,
  }));
  for (seconds of [1, 5])
    expect([
      ...(await samples(metrics, 'workqueue_unfinished_work_seconds{')),
      ...(await samples(metrics, 'workqueue_longest_running_processor_seconds{')),
    ]).toEqual([
      `workqueue_unfinished_work_seconds{name="authority"} ${2 * seconds}`,
      `workqueue_longest_running_processor_seconds{name="authority"} ${seconds}`,
    ]);
});

const notAfter = new Date('2028-01-01T00:00:00Z');

test('service-ca e2e service-ca-metrics: the leader exports the phase of the authority and the expiry of its generations, without stale series', async () => {
  const metrics = createMetrics();
  const clock = vi.spyOn(performance, 'now').mockReturnValue(5_000);
  metrics.authority({
    phase: 'publishing',
    broken: undefined,
    generations: [{ id: '11111111', state: 'pending', notAfter, retiresAt: undefined }],
  });
  metrics.authority({
    phase: 'broken',
    broken: 'Unreadable',
    generations: [
      { id: '22222222', state: 'active', notAfter, retiresAt: undefined },
      { id: '33333333', state: 'retiring', notAfter, retiresAt: new Date('2027-01-01T00:00:00Z') },
    ],
  });
  clock.mockReturnValue(12_000);
  const text = await metrics.text();
  clock.mockRestore();
  expect(text).toContain(
    'gatehouse_serving_ca_not_after_seconds{generation="22222222",state="active"} 1830297600',
  );
  expect(text.match(/^gatehouse_serving_ca_retirement_seconds\{.*/gm)).toEqual([
    'gatehouse_serving_ca_retirement_seconds{generation="33333333"} 1798761600',
  ]);
  expect(text).toContain('gatehouse_authority_broken{reason="Unreadable"} 1');
  expect(text).toContain('gatehouse_rotation_phase{phase="broken"} 1');
  expect(text).toContain('gatehouse_rotation_phase_seconds{phase="broken"} 7');
  expect(text).not.toMatch(/11111111|publishing/);
});

const now = new Date('2026-11-21T12:00:00Z');
const inDays = (days: number) => new Date(now.getTime() + days * 86_400_000);

test('certs are exported as of the scrape, and only by the leader', async () => {
  const { scrape, issue, text } = createMetrics();
  const leading = new AbortController();
  expect(await text()).not.toContain('gatehouse_serving_reissue_waiting 0');

  const leaves = [
    { notAfter: inDays(2), generation: 'aaaaaaaa' },
    { notAfter: inDays(89), generation: 'aaaaaaaa' },
    { notAfter: inDays(-1), generation: undefined },
  ];
  const servingCerts = {
    all: () => leaves,
    stoppedByReason: () => new Map([['NotRequested', 1]]),
    waiting: () => 7,
    contended: () => 3,
    now: () => now,
  };
  scrape({ servingCerts }, leading.signal);
  for (const scraped of [await text(), await text()]) {
    expect(scraped).toContain('gatehouse_serving_leaf_not_after_seconds_bucket{le="0"} 1');
    expect(scraped).toContain('gatehouse_serving_leaf_not_after_seconds_bucket{le="259200"} 2');
    expect(scraped).toContain('gatehouse_serving_leaf_not_after_seconds_count 3');
    expect(scraped).toContain('gatehouse_serving_leaf_generation{generation="aaaaaaaa"} 2');
    expect(scraped).toContain('gatehouse_serving_leaf_generation{generation="unknown"} 1');
    expect(scraped).toContain('gatehouse_serving_leaf_not_renewed{reason="NotRequested"} 1');
    expect(scraped).toContain('gatehouse_serving_reissue_waiting 7');
    expect(scraped).toContain('gatehouse_serving_secrets_contended 3');
  }
  issue('issued', 'Missing');
  expect(await text()).toContain('gatehouse_issue_total{result="issued",reason="Missing"} 1');

  leading.abort();
  expect(await text()).not.toMatch(/gatehouse_serving_leaf_generation\{|reissue_waiting \d/);
});

test('the progress of a sweep is scraped while it runs', async () => {
  const metrics = createMetrics();
  const idle = { window: 'idle', source: 'Manual', open: false, expiresAt: 0, violations: undefined };
  const sweep = { phase: 'Confirming', objects: 500 };
  metrics.scrape({
    restoreWindows: () => [
      { ...idle, sweep: undefined },
      { ...idle, window: 'drill', sweep },
    ],
  });
  const name = 'gatehouse_restore_sweep_scanned_objects';
  expect(await samples(metrics, name)).toEqual([`${name}{window="drill",phase="Confirming"} 500`]);
});

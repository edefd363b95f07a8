import { expect, test } from 'vitest';

import { createMetrics, type Metrics } from './metrics.ts';

/** The samples of one metric, as Prometheus reads them. */
async function samples(metrics: Metrics, name: string): Promise<readonly string[]> {
  return (await metrics.text()).split('\n').filter((line) => line.startsWith(name));
}

test('an admission is counted by webhook, operation and outcome, with its time', async () => {
  const metrics = createMetrics();
  metrics.admission({ webhook: 'validate', operation: 'CREATE', outcome: 'deny' }, 0.003);
  const lines = await samples(metrics, 'gatehouse_admission_duration_seconds');
  const labels = 'webhook="validate",operation="CREATE",outcome="deny"';
  expect(lines).toContain(`gatehouse_admission_duration_seconds_count{${labels}} 1`);
  expect(lines).toContain(`gatehouse_admission_duration_seconds_sum{${labels}} 0.003`);
  expect(lines).toContain(`gatehouse_admission_duration_seconds_bucket{le="0.0025",${labels}} 0`);
  expect(lines).toContain(`gatehouse_admission_duration_seconds_bucket{le="0.005",${labels}} 1`);
});

test('requests that were no review are counted by status', async () => {
  const metrics = createMetrics();
  for (const status of [400, 404, 400]) metrics.rejectedRequest(status);
  expect(await samples(metrics, 'gatehouse_rejected_requests_total{')).toEqual([
    'gatehouse_rejected_requests_total{code="400"} 2',
    'gatehouse_rejected_requests_total{code="404"} 1',
  ]);
});

test('requests to the API server are counted under the names of client-go', async () => {
  const metrics = createMetrics();
  metrics.apiRequest({ method: 'GET', code: '200' }, 0.02);
  expect(await samples(metrics, 'rest_client_request_duration_seconds_count')).toEqual([
    'rest_client_request_duration_seconds_count{verb="GET",code="200"} 1',
  ]);
});

test('leadership is 1 or 0', async () => {
  const metrics = createMetrics();
  for (const isLeader of [true, false]) {
    metrics.leader(isLeader);
    expect(await samples(metrics, 'leader_election_master_status{')).toEqual([
      `leader_election_master_status{name="gatehouse"} ${isLeader ? 1 : 0}`,
    ]);
  }
});

test('a workqueue reports under the names of client-go', async () => {
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

test('the load of a workqueue is asked at each scrape, of its latest life alone', async () => {
  const metrics = createMetrics();
  let seconds = 1;
  metrics.queueLoad('authority', () => ({ unfinishedWorkSeconds: 99, longestRunningProcessorSeconds: 99 }));
  metrics.queueLoad('authority', () => ({
    unfinishedWorkSeconds: 2 * seconds,
    longestRunningProcessorSeconds: seconds,
  }));
  for (seconds of [1, 5]) {
    expect(await samples(metrics, 'workqueue_unfinished_work_seconds{')).toEqual([
      `workqueue_unfinished_work_seconds{name="authority"} ${2 * seconds}`,
    ]);
    expect(await samples(metrics, 'workqueue_longest_running_processor_seconds{')).toEqual([
      `workqueue_longest_running_processor_seconds{name="authority"} ${seconds}`,
    ]);
  }
});

test('two instances share nothing', async () => {
  const [one, other] = [createMetrics(), createMetrics()];
  one.rejectedRequest(400);
  expect(await samples(other, 'gatehouse_rejected_requests_total{')).toEqual([]);
});

test('the process itself is measured', async () => {
  const text = await createMetrics().text();
  for (const name of [
    'process_resident_memory_bytes',
    'process_cpu_seconds_total',
    'nodejs_eventloop_lag_seconds',
  ]) {
    expect(text).toContain(`\n${name} `);
  }
});

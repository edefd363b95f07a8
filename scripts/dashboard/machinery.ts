import { highest, p99, rate, type Row } from './panel.ts';

export const machinery: Row = {
  title: 'Machinery',
  panels: [
    {
      title: 'Leader',
      description: 'One replica has the value 1. Admission does not depend on it.',
      unit: 'short',
      queries: [{ expr: highest('pod', 'leader_election_master_status'), legend: '{{pod}}' }],
    },
    {
      title: 'Workqueues: keys waiting',
      description: 'Rises briefly after a start or a rotation, then returns to zero.',
      unit: 'short',
      queries: [{ expr: highest('name', 'workqueue_depth'), legend: '{{name}}' }],
    },
    {
      title: 'Workqueues: adds and retries',
      description: 'Continuous retries mean a reconcile that cannot succeed; the log has its key.',
      unit: 'ops',
      queries: [
        { expr: rate('name', 'workqueue_adds_total'), legend: 'added, {{name}}' },
        { expr: rate('name', 'workqueue_retries_total'), legend: 'retried, {{name}}' },
      ],
    },
    {
      title: 'Workqueues: p99',
      description: 'How long keys wait, how long a reconcile takes, and the longest running reconcile.',
      unit: 's',
      queries: [
        { expr: p99('name', 'workqueue_queue_duration_seconds'), legend: 'waiting, {{name}}' },
        { expr: p99('name', 'workqueue_work_duration_seconds'), legend: 'working, {{name}}' },
        { expr: highest('name', 'workqueue_longest_running_processor_seconds'), legend: 'running, {{name}}' },
      ],
    },
    {
      title: 'Requests to the API server',
      description: 'By method and status.',
      unit: 'reqps',
      queries: [
        {
          expr: rate('verb, code', 'rest_client_request_duration_seconds_count'),
          legend: '{{verb}} {{code}}',
        },
      ],
    },
    {
      title: 'p99 of the API server',
      description: 'Includes the live reads of admission.',
      unit: 's',
      queries: [{ expr: p99('verb', 'rest_client_request_duration_seconds'), legend: '{{verb}}' }],
    },
    {
      title: 'Clock',
      description:
        'How far each replica is ahead of the API server. Beyond an hour, no certificate is replaced.',
      unit: 's',
      queries: [{ expr: highest('pod', 'gatehouse_clock_skew_seconds'), legend: '{{pod}}' }],
    },
    {
      title: 'Memory',
      description: 'The limit is 512 MiB unless you changed it.',
      unit: 'bytes',
      queries: [{ expr: highest('pod', 'process_resident_memory_bytes'), legend: '{{pod}}' }],
    },
  ],
};

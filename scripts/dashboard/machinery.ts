import { highest, p99, panel, rate, type Row } from './panel.ts';

export const machinery: Row = {
  title: 'Machinery',
  panels: [
    panel('Leader', 'short', 'One replica has the value 1. Admission does not depend on it.', {
      '{{pod}}': highest('pod', 'leader_election_master_status'),
    }),
    panel(
      'Workqueues: keys waiting',
      'short',
      'Rises briefly after a start or a rotation, then returns to zero.',
      { '{{name}}': highest('name', 'workqueue_depth') },
    ),
    panel(
      'Workqueues: adds and retries',
      'ops',
      'Continuous retries mean a reconcile that cannot succeed; the log has its key.',
      {
        'added, {{name}}': rate('name', 'workqueue_adds_total'),
        'retried, {{name}}': rate('name', 'workqueue_retries_total'),
      },
    ),
    panel(
      'Workqueues: p99',
      's',
      'How long keys wait, how long a reconcile takes, and the longest running reconcile.',
      {
        'waiting, {{name}}': p99('name', 'workqueue_queue_duration_seconds'),
        'working, {{name}}': p99('name', 'workqueue_work_duration_seconds'),
        'running, {{name}}': highest('name', 'workqueue_longest_running_processor_seconds'),
      },
    ),
    panel('Requests to the API server', 'reqps', 'By method and status.', {
      '{{verb}} {{code}}': rate('verb, code', 'rest_client_request_duration_seconds_count'),
    }),
    panel('p99 of the API server', 's', 'Includes the live reads of admission.', {
      '{{verb}}': p99('verb', 'rest_client_request_duration_seconds'),
    }),
    panel(
      'Clock',
      's',
      'How far each replica is ahead of the API server. Beyond an hour, no certificate is replaced.',
      { '{{pod}}': highest('pod', 'gatehouse_clock_skew_seconds') },
    ),
    panel('Memory', 'bytes', 'The limit is 512 MiB unless you changed it.', {
      '{{pod}}': highest('pod', 'process_resident_memory_bytes'),
    }),
  ],
};

/** What the Grafana dashboard shows, row by row. Every query asks only the instances of the variable `job`. */

/** One line, or family of lines, of a panel. `legend` is Grafana's: labels in double braces. */
export interface Query {
  readonly expr: string;
  readonly legend: string;
}

export interface Panel {
  readonly title: string;
  /** What to think of it, for the one who is on call. */
  readonly description: string;
  /** A unit of Grafana. */
  readonly unit: 'reqps' | 'ops' | 's' | 'short' | 'bytes';
  readonly queries: readonly Query[];
}

export interface Row {
  readonly title: string;
  readonly panels: readonly Panel[];
}

/** `name{job=~"$job", …}` */
const of = (name: string, ...selectors: readonly string[]): string =>
  `${name}{${['job=~"$job"', ...selectors].join(', ')}}`;

const rate = (by: string, name: string, ...selectors: readonly string[]): string =>
  `sum by (${by}) (rate(${of(name, ...selectors)}[$__rate_interval]))`;

const p99 = (by: string, histogram: string): string =>
  `histogram_quantile(0.99, ${rate(`le, ${by}`, `${histogram}_bucket`)})`;

const highest = (by: string, name: string, ...selectors: readonly string[]): string =>
  `max by (${by}) (${of(name, ...selectors)})`;

const ADMISSION = 'gatehouse_admission_duration_seconds';
const admission: Row = {
  title: 'Admission',
  panels: [
    {
      title: 'Reviews by outcome',
      description:
        'allow and deny are answers; retry asks the client to come again; error is judged by the failurePolicy.',
      unit: 'reqps',
      queries: [{ expr: rate('outcome', `${ADMISSION}_count`), legend: '{{outcome}}' }],
    },
    {
      title: 'Reviews by webhook',
      description: 'Which entry of the webhook configurations is asked how often.',
      unit: 'reqps',
      queries: [{ expr: rate('webhook', `${ADMISSION}_count`), legend: '{{webhook}}' }],
    },
    {
      title: 'Errors',
      description: 'Should be nothing at all. The log has each error with the uid of its review.',
      unit: 'reqps',
      queries: [
        { expr: rate('webhook', `${ADMISSION}_count`, 'outcome="error"'), legend: 'error, {{webhook}}' },
        { expr: rate('code', 'gatehouse_rejected_requests_total'), legend: 'no review, HTTP {{code}}' },
        { expr: rate('reason', 'gatehouse_admission_reviews_refused_total'), legend: '429, {{reason}}' },
      ],
    },
    {
      title: 'p99 by webhook',
      description: 'Below the timeoutSeconds of the policy, by far: writers wait for it.',
      unit: 's',
      queries: [{ expr: p99('webhook', ADMISSION), legend: '{{webhook}}' }],
    },
    {
      title: 'p99 by outcome',
      description: 'A refusal takes longer than a yes: what would refuse is read live first.',
      unit: 's',
      queries: [{ expr: p99('outcome', ADMISSION), legend: '{{outcome}}' }],
    },
    {
      title: 'In flight, and how long the loop stands still',
      description: 'Both grow when a replica has too much to do, or a handler computes for too long.',
      unit: 'short',
      queries: [
        { expr: highest('pod', 'gatehouse_admission_reviews_in_flight'), legend: 'in flight, {{pod}}' },
        { expr: p99('pod', 'gatehouse_event_loop_delay_seconds'), legend: 'p99 delay in s, {{pod}}' },
      ],
    },
    {
      title: 'Handlers',
      description: 'p99 of each handler, and its failures by reason.',
      unit: 's',
      queries: [
        { expr: p99('handler', 'gatehouse_handler_duration_seconds'), legend: 'p99, {{handler}}' },
        {
          expr: rate('handler, reason', 'gatehouse_handler_failures_total'),
          legend: 'failures/s, {{handler}}: {{reason}}',
        },
      ],
    },
    {
      title: 'Conversion',
      description: 'p99 of conversion reviews, and objects a second, by kind and outcome.',
      unit: 's',
      queries: [
        { expr: p99('crd', 'gatehouse_conversion_duration_seconds'), legend: 'p99, {{crd}}' },
        {
          expr: rate('crd, outcome', 'gatehouse_conversion_objects_total'),
          legend: 'objects/s, {{crd}}: {{outcome}}',
        },
      ],
    },
  ],
};

const certificates: Row = {
  title: 'Certificates',
  panels: [
    {
      title: 'When each generation of the CA ends',
      description: 'A new one is made at half of the life of the active one.',
      unit: 's',
      queries: [
        {
          expr: `${highest('generation, state', 'gatehouse_serving_ca_not_after_seconds')} - time()`,
          legend: '{{generation}} ({{state}})',
        },
      ],
    },
    {
      title: 'Phase of the authority',
      description: 'The phase that has 1, or why the stored authority cannot be used.',
      unit: 'short',
      queries: [
        { expr: highest('phase', 'gatehouse_rotation_phase'), legend: '{{phase}}' },
        { expr: `${highest('reason', 'gatehouse_authority_broken')} == 1`, legend: 'broken: {{reason}}' },
      ],
    },
    {
      title: 'For how long it has been in its phase',
      description: 'As far as the leader has seen. Publishing and propagating take minutes.',
      unit: 's',
      queries: [{ expr: highest('phase', 'gatehouse_rotation_phase_seconds'), legend: '{{phase}}' }],
    },
    {
      title: 'Serving certificates by what is left of them',
      description: 'Counted up to each limit; anything at 0 s has expired.',
      unit: 'short',
      queries: [
        {
          expr: highest('le', 'gatehouse_serving_leaf_not_after_seconds_bucket'),
          legend: 'at most {{le}} s',
        },
      ],
    },
    {
      title: 'Serving certificates by generation',
      description: 'In a rotation all of them move to the new generation.',
      unit: 'short',
      queries: [
        {
          expr: highest('generation', 'gatehouse_serving_leaf_generation'),
          legend: 'generation {{generation}}',
        },
        { expr: `max(${of('gatehouse_serving_reissue_waiting')})`, legend: 'waiting for their turn' },
      ],
    },
    {
      title: 'Issued',
      description: 'By result and reason. Events on the Services say what is wrong.',
      unit: 'ops',
      queries: [{ expr: rate('result, reason', 'gatehouse_issue_total'), legend: '{{result}}: {{reason}}' }],
    },
    {
      title: 'Not renewed any more',
      description: 'Certificates in Secrets whose Service no longer asks for them.',
      unit: 'short',
      queries: [{ expr: highest('reason', 'gatehouse_serving_leaf_not_renewed'), legend: '{{reason}}' }],
    },
  ],
};

const injection: Row = {
  title: 'CA bundles in other objects',
  panels: [
    {
      title: 'Targets by state',
      description: 'Whatever is not injected has an Event that says why.',
      unit: 'short',
      queries: [
        { expr: highest('kind, state', 'gatehouse_cabundle_targets'), legend: '{{kind}}: {{state}}' },
      ],
    },
    {
      title: 'Waiting longest for its bundle',
      description: 'Calls to that webhook fail meanwhile.',
      unit: 's',
      queries: [{ expr: `max(${of('gatehouse_cabundle_stale_seconds')})`, legend: 'stale' }],
    },
  ],
};

const policies: Row = {
  title: 'Policies and restores',
  panels: [
    {
      title: 'Violations by policy',
      description:
        'Among what is stored, as of the last audit. kubectl get admissionpolicy NAME -o yaml lists them.',
      unit: 'short',
      queries: [
        { expr: highest('policy', 'gatehouse_policy_violations'), legend: '{{policy}}' },
        { expr: highest('policy', 'gatehouse_shared_unique_values'), legend: 'shared values, {{policy}}' },
      ],
    },
    {
      title: 'Open windows',
      description: 'While one is open, the checks of its principals are put off.',
      unit: 'short',
      queries: [
        {
          expr: highest('window, source', 'gatehouse_restore_window_open'),
          legend: '{{window}} ({{source}})',
        },
      ],
    },
    {
      title: 'When open windows end by themselves',
      description: 'Seconds until each of them expires.',
      unit: 's',
      queries: [
        {
          expr: `${highest('window', 'gatehouse_restore_window_expires_timestamp_seconds')} - time()`,
          legend: '{{window}}',
        },
      ],
    },
    {
      title: 'What restores left behind',
      description:
        'Violations that the last sweep of each window found and that still hold. gatehouse restore report has them.',
      unit: 'short',
      queries: [{ expr: highest('window', 'gatehouse_restore_violations'), legend: '{{window}}' }],
    },
    {
      title: 'Checks put off',
      description: 'By policy; only for those who restore, or may put them off at any time.',
      unit: 'ops',
      queries: [{ expr: rate('policy', 'gatehouse_restore_deferred_total'), legend: '{{policy}}' }],
    },
    {
      title: 'The cluster went back in time',
      description:
        'Seen by the lease: etcd was restored from a snapshot. Everything is listed and swept anew.',
      unit: 'short',
      queries: [
        {
          expr: `sum by (evidence) (increase(${of('gatehouse_rollbacks_detected_total')}[$__rate_interval]))`,
          legend: '{{evidence}}',
        },
        {
          expr: `sum(increase(${of('gatehouse_authority_restored_total')}[$__rate_interval]))`,
          legend: 'authority written back',
        },
      ],
    },
  ],
};

const machinery: Row = {
  title: 'Machinery',
  panels: [
    {
      title: 'Leader',
      description: 'One replica has 1. Admission does not depend on it.',
      unit: 'short',
      queries: [{ expr: highest('pod', 'leader_election_master_status'), legend: '{{pod}}' }],
    },
    {
      title: 'Workqueues: keys waiting',
      description: 'Rises for a moment after a start or a rotation, then goes back to nothing.',
      unit: 'short',
      queries: [{ expr: highest('name', 'workqueue_depth'), legend: '{{name}}' }],
    },
    {
      title: 'Workqueues: added and tried again',
      description: 'Retries that go on mean a reconcile that cannot succeed; the log says which key.',
      unit: 'ops',
      queries: [
        { expr: rate('name', 'workqueue_adds_total'), legend: 'added, {{name}}' },
        { expr: rate('name', 'workqueue_retries_total'), legend: 'again, {{name}}' },
      ],
    },
    {
      title: 'Workqueues: p99',
      description: 'How long keys wait, how long a reconcile takes, and the longest that has not ended.',
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
      description: 'Live reads of admission are among them.',
      unit: 's',
      queries: [{ expr: p99('verb', 'rest_client_request_duration_seconds'), legend: '{{verb}}' }],
    },
    {
      title: 'Clock',
      description:
        'By how much each replica is ahead of the API server. Beyond an hour no certificate is replaced.',
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

export const ROWS: readonly Row[] = [admission, certificates, injection, policies, machinery];

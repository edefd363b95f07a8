import { highest, of, rate, type Row } from './panel.ts';

export const certificates: Row = {
  title: 'Certificates',
  panels: [
    {
      title: 'Time until each generation of the CA expires',
      description: 'A new generation is created after half of the lifetime of the active one.',
      unit: 's',
      queries: [
        {
          expr: `${highest('generation, state', 'gatehouse_serving_ca_not_after_seconds')} - time()`,
          legend: '{{generation}} ({{state}})',
        },
      ],
    },
    {
      title: 'Time until each retiring generation of the CA is removed',
      description: 'Restart before then what loads its certificate or its bundle only at start.',
      unit: 's',
      queries: [
        {
          expr: `${highest('generation', 'gatehouse_serving_ca_retirement_seconds')} - time()`,
          legend: '{{generation}}',
        },
      ],
    },
    {
      title: 'Phase of the authority',
      description: 'The phase with the value 1, or the reason why the stored authority cannot be used.',
      unit: 'short',
      queries: [
        { expr: highest('phase', 'gatehouse_rotation_phase'), legend: '{{phase}}' },
        { expr: `${highest('reason', 'gatehouse_authority_broken')} == 1`, legend: 'broken: {{reason}}' },
      ],
    },
    {
      title: 'Time in the current phase',
      description: 'As the leader has observed. Publishing and propagating take minutes.',
      unit: 's',
      queries: [{ expr: highest('phase', 'gatehouse_rotation_phase_seconds'), legend: '{{phase}}' }],
    },
    {
      title: 'Serving certificates by remaining lifetime',
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
      description: 'In a rotation, all of them move to the new generation.',
      unit: 'short',
      queries: [
        {
          expr: highest('generation', 'gatehouse_serving_leaf_generation'),
          legend: 'generation {{generation}}',
        },
        { expr: `max(${of('gatehouse_serving_reissue_waiting')})`, legend: 'waiting for their turn' },
        {
          expr: `max(${of('gatehouse_serving_secrets_contended')})`,
          legend: 'Secrets that another client keeps changing',
        },
      ],
    },
    {
      title: 'Issued',
      description: 'By result and reason. Events on the Services describe the problems.',
      unit: 'ops',
      queries: [{ expr: rate('result, reason', 'gatehouse_issue_total'), legend: '{{result}}: {{reason}}' }],
    },
    {
      title: 'Serving certificate of the webhooks',
      description: 'How often replicas took a new one, and how often one could not be presented.',
      unit: 'short',
      queries: [
        {
          expr: `sum by (pod) (increase(${of('certwatcher_read_certificate_total')}[$__rate_interval]))`,
          legend: 'read, {{pod}}',
        },
        {
          expr: `sum by (pod) (increase(${of('certwatcher_read_certificate_errors_total')}[$__rate_interval]))`,
          legend: 'failed, {{pod}}',
        },
      ],
    },
    {
      title: 'What servers present',
      description:
        'Endpoints of Services by the certificate of the last handshake. Stale: not the one in the Secret. Restarts: of workloads with gatehouse.dev/restart-on-renewal.',
      unit: 'short',
      queries: [
        { expr: highest('state', 'gatehouse_serving_endpoints'), legend: '{{state}}' },
        {
          expr: `sum by (result) (increase(${of('gatehouse_workload_restarts_total')}[$__rate_interval]))`,
          legend: 'restarts: {{result}}',
        },
      ],
    },
    {
      title: 'Not renewed',
      description: 'Certificates in Secrets whose Service stopped requesting them.',
      unit: 'short',
      queries: [{ expr: highest('reason', 'gatehouse_serving_leaf_not_renewed'), legend: '{{reason}}' }],
    },
  ],
};

import { highest, of, panel, rate, type Row, increase } from './panel.ts';

export const certificates: Row = {
  title: 'Certificates',
  panels: [
    panel(
      'Time until each generation of the CA expires',
      's',
      'A new generation is created after half of the lifetime of the active one.',
      {
        '{{generation}} ({{state}})': `${highest('generation, state', 'gatehouse_serving_ca_not_after_seconds')} - time()`,
      },
    ),
    panel(
      'Time until each retiring generation of the CA is removed',
      's',
      'Restart before then what loads its certificate or its bundle only at start.',
      { '{{generation}}': `${highest('generation', 'gatehouse_serving_ca_retirement_seconds')} - time()` },
    ),
    panel(
      'Phase of the authority',
      'short',
      'The phase with the value 1, or the reason why the stored authority cannot be used.',
      {
        '{{phase}}': highest('phase', 'gatehouse_rotation_phase'),
        'broken: {{reason}}': `${highest('reason', 'gatehouse_authority_broken')} == 1`,
      },
    ),
    panel(
      'Time in the current phase',
      's',
      'As the leader has observed. Publishing and propagating take minutes.',
      { '{{phase}}': highest('phase', 'gatehouse_rotation_phase_seconds') },
    ),
    panel(
      'Serving certificates by remaining lifetime',
      'short',
      'Counted up to each limit; anything at 0 s has expired.',
      { 'at most {{le}} s': highest('le', 'gatehouse_serving_leaf_not_after_seconds_bucket') },
    ),
    panel(
      'Serving certificates by generation',
      'short',
      'In a rotation, all of them move to the new generation.',
      {
        'generation {{generation}}': highest('generation', 'gatehouse_serving_leaf_generation'),
        'waiting for their turn': `max(${of('gatehouse_serving_reissue_waiting')})`,
        'Secrets that another client keeps changing': `max(${of('gatehouse_serving_secrets_contended')})`,
      },
    ),
    panel('Issued', 'ops', 'By result and reason. Events on the Services describe the problems.', {
      '{{result}}: {{reason}}': rate('result, reason', 'gatehouse_issue_total'),
    }),
    panel(
      'Serving certificate of the webhooks',
      'short',
      'How often replicas took a new one, and how often one could not be presented.',
      {
        'read, {{pod}}': increase('pod', 'certwatcher_read_certificate_total'),
        'failed, {{pod}}': increase('pod', 'certwatcher_read_certificate_errors_total'),
      },
    ),
    panel(
      'What servers present',
      'short',
      'Endpoints of Services by the certificate of the last handshake. Stale: not the one in the Secret. Restarts: of workloads with gatehouse.dev/restart-on-renewal.',
      {
        '{{state}}': highest('state', 'gatehouse_serving_endpoints'),
        'restarts: {{result}}': increase('result', 'gatehouse_workload_restarts_total'),
      },
    ),
    panel('Not renewed', 'short', 'Certificates in Secrets whose Service stopped requesting them.', {
      '{{reason}}': highest('reason', 'gatehouse_serving_leaf_not_renewed'),
    }),
  ],
};

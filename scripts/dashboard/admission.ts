import { highest, of, p99, panel, rate, type Row } from './panel.ts';

const ADMISSION = 'gatehouse_admission_duration_seconds';
export const admission: Row = {
  title: 'Admission',
  panels: [
    panel(
      'Reviews by outcome',
      'reqps',
      'allow and deny are answers; retry asks the client to retry; the failurePolicy decides about errors.',
      { '{{outcome}}': rate('outcome', `${ADMISSION}_count`) },
    ),
    panel('Reviews by webhook', 'reqps', 'How often each entry of the webhook configurations is called.', {
      '{{webhook}}': rate('webhook', `${ADMISSION}_count`),
    }),
    panel('Errors', 'reqps', 'Should be empty. The log has each error with the uid of its review.', {
      'error, {{webhook}}': rate('webhook', `${ADMISSION}_count`, 'outcome="error"'),
      'no review, HTTP {{code}}': rate('code', 'gatehouse_rejected_requests_total'),
      '429, {{reason}}': rate('reason', 'gatehouse_admission_reviews_refused_total'),
      'client refused, {{reason}}': rate('reason', 'gatehouse_clients_refused_total'),
      '--client-ca unusable': rate('pod', 'gatehouse_client_ca_read_errors_total'),
      'crowded out': rate('pod', 'gatehouse_webhook_connections_crowded_out_total'),
      connections: `sum(${of('gatehouse_webhook_connections')})`,
    }),
    panel('p99 by webhook', 's', 'Must be far below the timeoutSeconds of the policy: writers wait for it.', {
      '{{webhook}}': p99('webhook', ADMISSION),
    }),
    panel('p99 by outcome', 's', 'A denial takes longer than an allow: it is confirmed by a live read.', {
      '{{outcome}}': p99('outcome', ADMISSION),
    }),
    panel(
      'Reviews in flight, and event loop delay',
      'short',
      'Both grow when a replica is overloaded, or a handler blocks the event loop.',
      {
        'in flight, {{pod}}': highest('pod', 'gatehouse_admission_reviews_in_flight'),
        'p99 delay in s, {{pod}}': p99('pod', 'gatehouse_event_loop_delay_seconds'),
      },
    ),
    panel('Handlers', 's', 'p99 of each handler, and its failures by reason.', {
      'p99, {{handler}}': p99('handler', 'gatehouse_handler_duration_seconds'),
      'failures/s, {{handler}}: {{reason}}': rate('handler, reason', 'gatehouse_handler_failures_total'),
    }),
    panel('Conversion', 's', 'p99 of conversion reviews, and objects a second, by kind and outcome.', {
      'p99, {{crd}}': p99('crd', 'gatehouse_conversion_duration_seconds'),
      'objects/s, {{crd}}: {{outcome}}': rate('crd, outcome', 'gatehouse_conversion_objects_total'),
    }),
  ],
};

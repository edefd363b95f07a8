import { highest, of, p99, rate, type Row } from './panel.ts';

const ADMISSION = 'gatehouse_admission_duration_seconds';
export const admission: Row = {
  title: 'Admission',
  panels: [
    {
      title: 'Reviews by outcome',
      description:
        'allow and deny are answers; retry asks the client to retry; the failurePolicy decides about errors.',
      unit: 'reqps',
      queries: [{ expr: rate('outcome', `${ADMISSION}_count`), legend: '{{outcome}}' }],
    },
    {
      title: 'Reviews by webhook',
      description: 'How often each entry of the webhook configurations is called.',
      unit: 'reqps',
      queries: [{ expr: rate('webhook', `${ADMISSION}_count`), legend: '{{webhook}}' }],
    },
    {
      title: 'Errors',
      description: 'Should be empty. The log has each error with the uid of its review.',
      unit: 'reqps',
      queries: [
        { expr: rate('webhook', `${ADMISSION}_count`, 'outcome="error"'), legend: 'error, {{webhook}}' },
        { expr: rate('code', 'gatehouse_rejected_requests_total'), legend: 'no review, HTTP {{code}}' },
        { expr: rate('reason', 'gatehouse_admission_reviews_refused_total'), legend: '429, {{reason}}' },
        { expr: rate('reason', 'gatehouse_clients_refused_total'), legend: 'client refused, {{reason}}' },
        { expr: rate('pod', 'gatehouse_client_ca_read_errors_total'), legend: '--client-ca unusable' },
        { expr: rate('pod', 'gatehouse_webhook_connections_crowded_out_total'), legend: 'crowded out' },
        { expr: `sum(${of('gatehouse_webhook_connections')})`, legend: 'connections' },
      ],
    },
    {
      title: 'p99 by webhook',
      description: 'Must be far below the timeoutSeconds of the policy: writers wait for it.',
      unit: 's',
      queries: [{ expr: p99('webhook', ADMISSION), legend: '{{webhook}}' }],
    },
    {
      title: 'p99 by outcome',
      description: 'A denial takes longer than an allow: it is confirmed by a live read.',
      unit: 's',
      queries: [{ expr: p99('outcome', ADMISSION), legend: '{{outcome}}' }],
    },
    {
      title: 'Reviews in flight, and event loop delay',
      description: 'Both grow when a replica is overloaded, or a handler blocks the event loop.',
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

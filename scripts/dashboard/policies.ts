import { highest, of, rate, type Row } from './panel.ts';

export const policies: Row = {
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

import { highest, of, rate, type Row } from './panel.ts';

export const policies: Row = {
  title: 'Policies and restores',
  panels: [
    {
      title: 'Violations by policy',
      description:
        'Violations by existing objects, as of the last audit. kubectl get admissionpolicy NAME -o yaml lists them.',
      unit: 'short',
      queries: [
        { expr: highest('policy', 'gatehouse_policy_violations'), legend: '{{policy}}' },
        { expr: highest('policy', 'gatehouse_shared_unique_values'), legend: 'shared values, {{policy}}' },
      ],
    },
    {
      title: 'Claims of unique values without a stored object',
      description:
        'Claims that wait for their object, and requests that were refused because their user has too many.',
      unit: 'short',
      queries: [
        { expr: highest('instance', 'gatehouse_unsettled_unique_claims'), legend: 'unsettled, {{instance}}' },
        {
          expr: rate('instance', 'gatehouse_unique_claims_refused_total'),
          legend: 'refused per second, {{instance}}',
        },
      ],
    },
    {
      title: 'Open windows',
      description: 'While a window is open, the checks of its principals are deferred.',
      unit: 'short',
      queries: [
        {
          expr: highest('window, source', 'gatehouse_restore_window_open'),
          legend: '{{window}} ({{source}})',
        },
      ],
    },
    {
      title: 'Time until open windows expire',
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
      title: 'Violations after restores',
      description:
        'Violations that the last sweep of each window found and that still exist. gatehouse restore report lists them.',
      unit: 'short',
      queries: [{ expr: highest('window', 'gatehouse_restore_violations'), legend: '{{window}}' }],
    },
    {
      title: 'Problems in the rehearsal of a restore',
      description:
        'Of the last scheduled rehearsal: problems of the newest backup, and those that the one before did not have.',
      unit: 'short',
      queries: [
        { expr: `max(${of('gatehouse_restore_rehearsal_problems')})`, legend: 'problems' },
        { expr: `max(${of('gatehouse_restore_rehearsal_new_problems')})`, legend: 'new' },
      ],
    },
    {
      title: 'Time since the last rehearsal of a restore',
      description: 'And the age of the newest backup when it was rehearsed.',
      unit: 's',
      queries: [
        {
          expr: `time() - max(${of('gatehouse_restore_rehearsal_timestamp_seconds')})`,
          legend: 'last rehearsal',
        },
        {
          expr: `max(${of('gatehouse_restore_rehearsal_timestamp_seconds')}) - max(${of('gatehouse_restore_rehearsal_backup_timestamp_seconds')})`,
          legend: 'age of the backup',
        },
      ],
    },
    {
      title: 'Deferred checks',
      description: 'By policy; only for restorers and users who may defer checks at any time.',
      unit: 'ops',
      queries: [{ expr: rate('policy', 'gatehouse_restore_deferred_total'), legend: '{{policy}}' }],
    },
    {
      title: 'Rollbacks of the cluster',
      description:
        'Detected by the Lease: etcd was restored from a snapshot. Everything is listed and swept again.',
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

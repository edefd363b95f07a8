import { highest, of, panel, rate, type Row, increase } from './panel.ts';

export const policies: Row = {
  title: 'Policies and restores',
  panels: [
    panel(
      'Violations by policy',
      'short',
      'Violations by existing objects, as of the last audit. kubectl get admissionpolicy NAME -o yaml lists them.',
      {
        '{{policy}}': highest('policy', 'gatehouse_policy_violations'),
        'shared values, {{policy}}': highest('policy', 'gatehouse_shared_unique_values'),
      },
    ),
    panel(
      'Claims of unique values without a stored object',
      'short',
      'Claims that wait for their object, and requests that were refused because their user has too many.',
      {
        'unsettled, {{instance}}': highest('instance', 'gatehouse_unsettled_unique_claims'),
        'refused per second, {{instance}}': rate('instance', 'gatehouse_unique_claims_refused_total'),
      },
    ),
    panel('Open windows', 'short', 'While a window is open, the checks of its principals are deferred.', {
      '{{window}} ({{source}})': highest('window, source', 'gatehouse_restore_window_open'),
    }),
    panel('Time until open windows expire', 's', 'Seconds until each of them expires.', {
      '{{window}}': `${highest('window', 'gatehouse_restore_window_expires_timestamp_seconds')} - time()`,
    }),
    panel(
      'Violations after restores',
      'short',
      'Violations that the last sweep of each window found and that still exist. gatehouse restore report lists them.',
      { '{{window}}': highest('window', 'gatehouse_restore_violations') },
    ),
    panel(
      'Problems in the rehearsal of a restore',
      'short',
      'Of the last scheduled rehearsal: problems of the newest backup, and those that the one before did not have.',
      {
        problems: `max(${of('gatehouse_restore_rehearsal_problems')})`,
        new: `max(${of('gatehouse_restore_rehearsal_new_problems')})`,
      },
    ),
    panel(
      'Time since the last rehearsal of a restore',
      's',
      'And the age of the newest backup when it was rehearsed.',
      {
        'last rehearsal': `time() - max(${of('gatehouse_restore_rehearsal_timestamp_seconds')})`,
        'age of the backup': `max(${of('gatehouse_restore_rehearsal_timestamp_seconds')}) - max(${of('gatehouse_restore_rehearsal_backup_timestamp_seconds')})`,
      },
    ),
    panel(
      'Deferred checks',
      'ops',
      'By policy; only for restorers and users who may defer checks at any time.',
      { '{{policy}}': rate('policy', 'gatehouse_restore_deferred_total') },
    ),
    panel(
      'Rollbacks of the cluster',
      'short',
      'Detected by the Lease: etcd was restored from a snapshot. Everything is listed and swept again.',
      {
        '{{evidence}}': increase('evidence', 'gatehouse_rollbacks_detected_total'),
        'authority written back': `sum(increase(${of('gatehouse_authority_restored_total')}[$__rate_interval]))`,
      },
    ),
  ],
};

/** The API group of Gatehouse, and what all its kinds share. */
export const GROUP = 'gatehouse.dev';
export const VERSION = 'v1alpha1';

export const EXCLUDE_FROM_BACKUP_LABEL = 'velero.io/exclude-from-backup';

/** On what Gatehouse writes for itself: a restore must not bring it back. */
export const OWN_LABELS = {
  'app.kubernetes.io/managed-by': 'gatehouse',
  [EXCLUDE_FROM_BACKUP_LABEL]: 'true',
} as const;

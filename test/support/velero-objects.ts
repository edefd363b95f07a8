/** Prepares an object of a backup like Velero does before it sends it. */
import type { ObjectMeta, KubeObject } from '../../src/json/kube-object.ts';

/** An object as a cluster returned it, and as the backup contains it. */
export type BackupObject = KubeObject & {
  readonly metadata: ObjectMeta & { readonly name: string; readonly managedFields?: readonly object[] };
  readonly status?: unknown;
};

/** Checks an object that a cluster returned. @throws Error without a name */
export function backupObject(object: KubeObject): BackupObject {
  if (object.metadata?.name === undefined) throw new Error('an object in a backup must have a name');
  return object as BackupObject; // just checked; the API server gives managedFields as a list
}

const STRIPPED = new Set([
  ...['generateName', 'selfLink', 'uid', 'resourceVersion', 'generation', 'creationTimestamp'],
  ...['deletionTimestamp', 'deletionGracePeriodSeconds', 'ownerReferences'],
]);

/** Removes the fields that belonged to the deleted object. Keeps labels, annotations, finalizers and managedFields. */
export function stripped(object: BackupObject): BackupObject {
  const metadata = Object.fromEntries(Object.entries(object.metadata).filter(([key]) => !STRIPPED.has(key)));
  const rest = Object.fromEntries(Object.entries(object).filter(([key]) => key !== 'status'));
  return { ...rest, metadata: metadata as BackupObject['metadata'] }; // the name is not among the removed fields
}

export const restoreLabels = (backup: string, restore: string): Readonly<Record<string, string>> => ({
  'velero.io/backup-name': backup,
  'velero.io/restore-name': restore,
});

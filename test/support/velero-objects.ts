/** Prepares an object of a backup like Velero does before it sends it. */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';

import type { ObjectMeta, KubeObject } from '../../src/json/kube-object.ts';
import { isJsonObject } from '../../src/json/json.ts';

/** An object as a cluster returned it, and as the backup contains it. */
export type BackupObject = KubeObject & {
  readonly metadata: ObjectMeta & { readonly name: string; readonly managedFields?: readonly object[] };
  readonly status?: unknown;
};

/** Checks an object that a cluster returned. @throws Error if it has no name */
export function backupObject(object: KubeObject): BackupObject {
  if (object.metadata?.name === undefined) throw new Error('an object in a backup must have a name');
  return object as BackupObject; // just checked; the API server gives managedFields as a list
}

const STRIPPED = new Set([
  'generateName',
  'selfLink',
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'ownerReferences',
]);

/** Removes the fields that belonged to the deleted object. Keeps labels, annotations, finalizers and managedFields. */
export function stripped(object: BackupObject): BackupObject {
  const metadata = Object.fromEntries(Object.entries(object.metadata).filter(([key]) => !STRIPPED.has(key)));
  const rest = Object.fromEntries(Object.entries(object).filter(([key]) => key !== 'status'));
  return { ...rest, metadata: metadata as BackupObject['metadata'] }; // the name is not among the removed fields
}

const LONGEST_LABEL = 63;

/** Truncates a long name, and appends a part of its digest. */
export function validName(name: string): string {
  if (name.length <= LONGEST_LABEL) return name;
  const digest = createHash('sha256').update(name).digest('hex');
  return name.slice(0, LONGEST_LABEL - 6) + digest.slice(0, 6);
}

export function restoreLabels(backup: string, restore: string): Readonly<Record<string, string>> {
  return { 'velero.io/backup-name': validName(backup), 'velero.io/restore-name': validName(restore) };
}

export function withMetadata(object: BackupObject, metadata: Partial<ObjectMeta>): BackupObject {
  return { ...object, metadata: { ...object.metadata, ...metadata } };
}

/** The merge patch that changes `before` into `after`; undefined if they are equal. */
export function mergeDiff(before: object, after: object): object | undefined {
  const [from, to] = [new Map(Object.entries(before)), new Map(Object.entries(after))];
  const changes: [string, unknown][] = [...from.keys()]
    .filter((key) => !to.has(key))
    .map((key) => [key, null]);
  for (const [key, value] of to) {
    const current: unknown = from.get(key);
    if (isJsonObject(current) && isJsonObject(value)) {
      const deeper = mergeDiff(current, value);
      if (deeper !== undefined) changes.push([key, deeper]);
    } else if (!isDeepStrictEqual(current, value)) changes.push([key, value]);
  }
  return changes.length === 0 ? undefined : Object.fromEntries(changes);
}

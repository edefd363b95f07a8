/** Changes an object of a backup as Velero does before it creates the object. */
import { isEqual, isJsonObject, objectIn, type JsonObject, type JsonValue } from '../../json/json.ts';
import { veleroName } from '../attribution.ts';
import type { BackupItem } from './backup.ts';

export interface RestoreNames {
  readonly backup: string;
  readonly restore: string;
  readonly namespaceMapping: Readonly<Record<string, string>>;
}

/** managedFields are restored by a second write. */
const STRIPPED: ReadonlySet<string> = new Set([
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

export function stripped(object: JsonObject): JsonObject {
  const metadata = Object.entries(objectIn(object, 'metadata')).filter(([key]) => !STRIPPED.has(key));
  const others = Object.entries(object).filter(([key]) => key !== 'status');
  return { ...Object.fromEntries(others), metadata: Object.fromEntries(metadata) };
}

export const mappedNamespace = (
  namespace: string | undefined,
  { namespaceMapping }: Pick<RestoreNames, 'namespaceMapping'>,
): string | undefined =>
  namespace !== undefined && Object.hasOwn(namespaceMapping, namespace)
    ? namespaceMapping[namespace]
    : namespace;

export function restoredObject({ object, namespace }: BackupItem, names: RestoreNames): JsonObject {
  const bare = stripped(object);
  const place = mappedNamespace(namespace, names);
  return {
    ...bare,
    metadata: {
      ...objectIn(bare, 'metadata'),
      ...(place === undefined ? {} : { namespace: place }),
      labels: { ...objectIn(bare, 'metadata', 'labels'), ...restoreLabels(names) },
    },
  };
}

export const restoreLabels = ({ backup, restore }: RestoreNames): Readonly<Record<string, string>> => ({
  'velero.io/backup-name': veleroName(backup),
  'velero.io/restore-name': veleroName(restore),
});

export function mergeDiff(before: JsonObject, after: JsonObject): JsonObject | undefined {
  const changes: [string, JsonValue][] = Object.keys(before)
    .filter((key) => !Object.hasOwn(after, key))
    .map((key) => [key, null]);
  for (const [key, value] of Object.entries(after)) {
    const current = Object.hasOwn(before, key) ? before[key] : undefined;
    if (isJsonObject(current) && isJsonObject(value)) {
      const deeper = mergeDiff(current, value);
      if (deeper !== undefined) changes.push([key, deeper]);
    } else if (!isEqual(current, value)) changes.push([key, value]);
  }
  return changes.length === 0 ? undefined : Object.fromEntries(changes);
}

/** Changes an object of a backup as Velero does before it creates the object. */
import {
  isEqual,
  isJsonObject,
  listIn,
  objectIn,
  textIn,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { type GroupResource, groupResourceName } from '../../json/kube-object.ts';
import { mergeInto } from '../../json/merge-patch.ts';
import { veleroName } from '../attribution.ts';
import type { BackupItem } from './backup.ts';
import { withoutClusterState } from './item-actions.ts';

export interface RestoreNames {
  readonly backup: string;
  readonly restore: string;
  readonly namespaceMapping: Readonly<Record<string, string>>;
  readonly preserveNodePorts?: boolean;
  readonly modify?: Modify | undefined;
}

/** The resource modifiers of a Restore. A rule that fails changes nothing. */
export type Modify = (
  object: JsonObject,
  resource: GroupResource,
) => { readonly object: JsonObject; readonly failed: readonly string[] };

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

export function restoredObject(item: BackupItem, names: RestoreNames): JsonObject {
  const { object: bare } = modifiedObject(item, names);
  const place = mappedNamespace(item.namespace, names);
  return {
    ...bare,
    metadata: {
      ...objectIn(bare, 'metadata'),
      ...(place === undefined ? {} : { namespace: place }),
      labels: { ...objectIn(bare, 'metadata', 'labels'), ...restoreLabels(names) },
    },
  };
}

/** Velero modifies an object after its own changes, and before it maps the namespace. */
export function modifiedObject({ object, resource }: BackupItem, names: RestoreNames): ReturnType<Modify> {
  const kind = groupResourceName(resource);
  const plain = withoutClusterState(stripped(object), kind, names.preserveNodePorts === true);
  const bare = mapped(plain, kind, names);
  return names.modify?.(bare, resource) ?? { object: bare, failed: [] };
}

function mapped(object: JsonObject, kind: string, names: RestoreNames): JsonObject {
  if (kind === DEFINITIONS) return repairedDefinition(object);
  if (isBinding(kind)) return withMappedSubjects(object, names);
  const claim = objectIn(object, 'spec', 'claimRef');
  if (kind !== 'persistentvolumes' || claim.namespace === undefined) return object;
  const namespace = mappedNamespace(textIn(claim, 'namespace'), names) ?? '';
  return mergeInto(object, { spec: { claimRef: { namespace } } });
}

const DEFINITIONS = 'customresourcedefinitions.apiextensions.k8s.io';

export const isBinding = (kind: string): boolean =>
  ['rolebindings', 'clusterrolebindings'].some((name) => kind === `${name}.rbac.authorization.k8s.io`);

function withMappedSubjects(binding: JsonObject, names: RestoreNames): JsonObject {
  if (!Array.isArray(binding.subjects)) return binding;
  const subjects = listIn(binding, 'subjects').map((subject) => {
    const namespace = mappedNamespace(textIn(subject, 'namespace'), names) ?? '';
    return isJsonObject(subject) && namespace !== '' ? { ...subject, namespace } : subject;
  });
  return { ...binding, subjects };
}

/** v1 CRDs cannot have `preserveUnknownFields: true`, so Velero sets it in their schemas. */
export function repairedDefinition(definition: JsonObject): JsonObject {
  const spec = objectIn(definition, 'spec');
  if (spec.preserveUnknownFields !== true) return definition;
  const openAPIV3Schema = { 'x-kubernetes-preserve-unknown-fields': true };
  const versions = listIn(spec, 'versions').map((version) =>
    isJsonObject(version) ? mergeInto(version, { schema: { openAPIV3Schema } }) : version,
  );
  return { ...definition, spec: { ...spec, preserveUnknownFields: false, versions } };
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

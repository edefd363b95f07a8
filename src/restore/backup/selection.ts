/** Which objects of a backup Velero restores (the include and exclude flags of `velero restore create`), and in which order. */
import { compareText, type JsonObject, listIn, objectIn, textIn } from '../../json/json.ts';
import { groupResourceName, objectKey } from '../../json/kube-object.ts';
import { matchesSelector, type NormalSelector } from '../../json/label-selector.ts';
import type { BackupItem } from './backup.ts';
import { createIncludes } from './glob.ts';

export interface SelectionOptions {
  /** Globs. Empty or `*`: all. */
  readonly includeNamespaces?: readonly string[];
  readonly excludeNamespaces?: readonly string[];
  /** Globs of full names such as `servers.infra.example.com`. Empty or `*`: all. */
  readonly includeResources?: readonly string[];
  readonly excludeResources?: readonly string[];
  /** Undefined: only if all namespaces are restored. */
  readonly includeClusterResources?: boolean | undefined;
  /** One of them must match. Empty: all objects. */
  readonly selectors?: readonly NormalSelector[];
  /** Its answer counts instead of the selectors. */
  readonly filter?: ResourceFilter | undefined;
}

/** Undefined: no filter is for this object. */
export type ResourceFilter = (item: BackupItem) => boolean | undefined;

export type Skipped =
  | 'namespace is excluded'
  | 'resource is excluded'
  | 'cluster-scoped'
  | 'labels do not match'
  | 'resource policy'
  | 'never restored'
  | 'already completed'
  | 'mirror pod';

const NEVER: ReadonlySet<string> = new Set([
  'nodes',
  'events',
  'events.events.k8s.io',
  'backups.velero.io',
  'restores.velero.io',
  'resticrepositories.velero.io',
  'backuprepositories.velero.io',
  'csinodes.storage.k8s.io',
  'volumeattachments.storage.k8s.io',
]);

/** Velero restores them even if they are excluded. */
const ALWAYS = 'datauploads.velero.io';

export const isNeverRestored = (kind: string): boolean => NEVER.has(kind);

/** Undefined: Velero restores the object. */
export function createSelection(options: SelectionOptions): (item: BackupItem) => Skipped | undefined {
  const { includeClusterResources, selectors = [], filter } = options;
  const namespaces = createIncludes(options.includeNamespaces, options.excludeNamespaces);
  const resources = createIncludes(options.includeResources, options.excludeResources);
  return (item) => {
    const { resource, namespace, object } = item;
    const kind = groupResourceName(resource);
    if (NEVER.has(kind)) return 'never restored';
    if (kind === ALWAYS) return undefined;
    if (!resources.selects(kind)) return 'resource is excluded';
    if (namespace !== undefined && !namespaces.selects(namespace)) return 'namespace is excluded';
    if (namespace === undefined && !(includeClusterResources ?? namespaces.selectsAll))
      return 'cluster-scoped';
    const filtered = filter?.(item);
    if (filtered === false) return 'resource policy';
    if (
      filtered === undefined &&
      selectors.length > 0 &&
      !selectors.some((one) => matchesSelector(one, labelsOf(object)))
    )
      return 'labels do not match';
    return endedReason(kind, object);
  };
}

/** What Velero restores of a backup, and why it leaves out the rest. */
export function selectItems(all: readonly BackupItem[], options: SelectionOptions) {
  const select = createSelection(options);
  const { includeClusterResources = true } = options;
  const selectAdditional = createSelection({
    ...options,
    includeClusterResources,
    selectors: [],
    filter: undefined,
  });
  const byName = new Map(all.map((item) => [describeItem(item), item]));
  const selected = new Set(all.filter((item) => select(item) === undefined));
  for (const item of selected)
    // also visits the added items
    for (const name of neededBy(item)) {
      const needed = byName.get(name);
      if (needed !== undefined && selectAdditional(needed) === undefined) selected.add(needed);
    }
  const leftOut = all.filter((item) => !selected.has(item));
  return { items: [...selected], leftOut: new Map(leftOut.map((item) => [item, select(item) ?? ''])) };
}

export const describeItem = ({ resource, namespace, name }: Omit<BackupItem, 'object'>): string =>
  `${groupResourceName(resource)} ${objectKey({ namespace, name })}`;

/** Velero restores them together with the object: the class and claims of a Pod, the volume of a claim. */
function neededBy({ resource, namespace = '', object }: BackupItem): readonly string[] {
  const kind = groupResourceName(resource);
  if (kind === 'persistentvolumeclaims')
    return textIn(object, 'status', 'phase') === 'Bound'
      ? [`persistentvolumes ${textIn(object, 'spec', 'volumeName')}`]
      : [];
  if (kind !== 'pods') return [];
  const claims = listIn(object, 'spec', 'volumes').map((volume) =>
    textIn(volume, 'persistentVolumeClaim', 'claimName'),
  );
  return [
    `priorityclasses.scheduling.k8s.io ${textIn(object, 'spec', 'priorityClassName')}`,
    ...claims.map((name) => `persistentvolumeclaims ${namespace}/${name}`),
  ];
}

export const hasResource = (
  { includeResources, excludeResources }: SelectionOptions,
  name: string,
): boolean => !NEVER.has(name) && createIncludes(includeResources, excludeResources).selects(name);

/** The patterns that match none of the names. */
export const unmatched = (patterns: readonly string[] = [], names: readonly string[]): readonly string[] =>
  patterns.filter((pattern) => !names.some((name) => createIncludes([pattern]).selects(name)));

export function labelsOf(object: JsonObject): Readonly<Record<string, string>> {
  const labels = Object.entries(objectIn(object, 'metadata', 'labels'));
  return Object.fromEntries(
    labels.flatMap(([key, value]) => (typeof value === 'string' ? [[key, value]] : [])),
  );
}

/** Pods and Jobs that have finished would only run again. */
function endedReason(kind: string, object: JsonObject): Skipped | undefined {
  const { phase, completionTime } = objectIn(object, 'status');
  if (kind === 'jobs.batch') return completionTime === undefined ? undefined : 'already completed';
  if (kind !== 'pods') return undefined;
  if ('kubernetes.io/config.mirror' in objectIn(object, 'metadata', 'annotations')) return 'mirror pod';
  return phase === 'Succeeded' || phase === 'Failed' ? 'already completed' : undefined;
}

const FIRST: readonly string[] = [
  'customresourcedefinitions.apiextensions.k8s.io',
  'namespaces',
  'storageclasses.storage.k8s.io',
  'volumesnapshotclasses.snapshot.storage.k8s.io',
  'volumesnapshotcontents.snapshot.storage.k8s.io',
  'volumesnapshots.snapshot.storage.k8s.io',
  'datauploads.velero.io',
  'persistentvolumes',
  'persistentvolumeclaims',
  'clusterroles.rbac.authorization.k8s.io',
  'roles.rbac.authorization.k8s.io',
  'serviceaccounts',
  'clusterrolebindings.rbac.authorization.k8s.io',
  'rolebindings.rbac.authorization.k8s.io',
  'secrets',
  'configmaps',
  'limitranges',
  'priorityclasses.scheduling.k8s.io',
  'pods',
  'replicasets.apps',
  'clusterclasses.cluster.x-k8s.io',
  'endpoints',
  'services',
];
const LAST: readonly string[] = [
  'clusterbootstraps.run.tanzu.vmware.com',
  'clusters.cluster.x-k8s.io',
  'clusterresourcesets.addons.cluster.x-k8s.io',
];

/**
 * First the kinds that others need, then the alphabet. Velero takes namespaces in random order; here they are sorted.
 * @see https://velero.io/docs/v1.18/restore-reference/#restore-order
 */
export function restoreOrder<Item extends Omit<BackupItem, 'object'>>(
  items: readonly Item[],
): readonly Item[] {
  const keyed = items.map((item) => ({ item, kind: groupResourceName(item.resource) }));
  return keyed
    .toSorted(
      (a, b) =>
        rankOf(a.kind) - rankOf(b.kind) ||
        compareText(a.kind, b.kind) ||
        compareText(a.item.namespace ?? '', b.item.namespace ?? '') ||
        compareText(a.item.name, b.item.name),
    )
    .map(({ item }) => item);
}

function rankOf(kind: string): number {
  const first = FIRST.indexOf(kind);
  return first >= 0 ? first : FIRST.length + 1 + LAST.indexOf(kind);
}

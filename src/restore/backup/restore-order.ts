/** The order in which Velero restores the objects of a backup. */
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';

/** The kinds that Velero restores first, in this order. */
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

/** The fields of an object that determine its place in the order. */
export interface Ordered {
  readonly resource: GroupResource;
  readonly namespace: string | undefined;
  readonly name: string;
}

/**
 * Sorts by kind, namespace and name: first the kinds that others need, then the alphabet, regardless of scope. Velero
 * takes the namespaces of one kind in random order; here they are sorted.
 *
 * @see https://velero.io/docs/v1.18/restore-reference/#restore-order
 */
export function restoreOrder<Item extends Ordered>(items: readonly Item[]): readonly Item[] {
  const keyed = items.map((item) => ({ item, kind: groupResourceName(item.resource) }));
  return keyed
    .toSorted(
      (a, b) =>
        rankOf(a.kind) - rankOf(b.kind) ||
        compare(a.kind, b.kind) ||
        compare(a.item.namespace ?? '', b.item.namespace ?? '') ||
        compare(a.item.name, b.item.name),
    )
    .map(({ item }) => item);
}

function rankOf(kind: string): number {
  const first = FIRST.indexOf(kind);
  if (first >= 0) return first;
  return FIRST.length + 1 + LAST.indexOf(kind);
}

/** By code unit, as Go compares ASCII. */
const compare = (a: string, b: string): number => (a === b ? 0 : a < b ? -1 : 1);

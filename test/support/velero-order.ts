/** The order in which Velero restores objects. */
import type { Resource } from '../../src/kube/object.ts';
import { groupResourceName } from '../../src/json/kube-object.ts';
import type { Seeded } from './seeded.ts';
import type { BackupObject } from './velero-objects.ts';

/**
 * Kinds that Velero restores first. CustomResourceDefinitions and Namespaces go before all of them, in separate passes.
 */
const FIRST = [
  'storageclasses.storage.k8s.io',
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
const LAST = ['clusters.cluster.x-k8s.io', 'clusterresourcesets.addons.cluster.x-k8s.io'];

export interface Item {
  readonly resource: Resource;
  readonly object: BackupObject;
}

/**
 * Sorts by kind: first the kinds that others need, then the alphabet. The namespaces of a kind come in random order,
 * like the keys of a Go map. The objects of a namespace are sorted by name.
 */
export function veleroOrder(items: readonly Item[], seeded: Seeded): readonly Item[] {
  const kinds = Map.groupBy(items, ({ resource }) => groupResourceName(resource));
  const names = [...kinds.keys()].toSorted((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
  return names.flatMap((name) => {
    const places = Map.groupBy(kinds.get(name) ?? [], ({ object }) => object.metadata.namespace ?? '');
    return seeded.shuffle([...places.keys()]).flatMap((place) => (places.get(place) ?? []).toSorted(byName));
  });
}

function rank(name: string): number {
  const first = FIRST.indexOf(name);
  if (first >= 0) return first;
  return FIRST.length + (LAST.includes(name) ? 1 + LAST.indexOf(name) : 0);
}

const byName = (a: Item, b: Item): number => (a.object.metadata.name < b.object.metadata.name ? -1 : 1);

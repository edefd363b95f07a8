/** The namespaces to which `--namespaces` and `--without` restrict Gatehouse. */
import type { SharedConfig } from '../config/config.ts';
import type { KubeObject } from '../json/kube-object.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Resource } from '../kube/object.ts';

export type Namespaces = readonly string[] | undefined;

/** Where Gatehouse maintains serving certificates. Its own one is always among them. */
export const certificateNamespaces = ({
  namespace,
  namespaces,
  without,
}: Pick<SharedConfig, 'namespace' | 'namespaces' | 'without'>): Namespaces =>
  without.includes('certificates') ? [namespace] : namespaces;

/** Whether Gatehouse may read there. Cluster-scoped objects are always covered. */
export const isCovered = (namespaces: Namespaces, namespace: string | undefined): boolean =>
  namespaces === undefined || namespace === undefined || namespaces.includes(namespace);

/** Where to list a kind. Undefined: all namespaces, or a cluster-scoped kind. */
export const placesOf = (
  { namespaced }: Pick<Resource, 'namespaced'>,
  namespaces: Namespaces,
): readonly (string | undefined)[] => (namespaced ? (namespaces ?? [undefined]) : [undefined]);

export async function listIn<T extends KubeObject>(
  client: Pick<KubeClient, 'listAll'>,
  resource: Resource,
  namespaces: Namespaces,
  options: NonNullable<Parameters<KubeClient['listAll']>[1]>,
): Promise<readonly T[]> {
  const lists = await Promise.all(
    placesOf(resource, namespaces).map((namespace) => client.listAll<T>(resource, { ...options, namespace })),
  );
  return lists.flatMap(({ items }) => items);
}

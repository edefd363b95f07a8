/** Reads stored objects live from the API server, without any cache of this replica. */
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import { keyOf, type GroupResource, type KubeObject, type ObjectRef } from '../../json/kube-object.ts';
import { namespaces } from '../../kube/well-known.ts';
import { isSecret } from '../../admission/policy/object-ref.ts';
import { missingAccessMessage, namesSecrets } from './read-access.ts';
import type { NamespaceLabels } from '../../admission/policy/match/object-scope.ts';
import { listIn, placesOf, type Namespaces } from '../namespaces.ts';
import { served } from './world.ts';

export type StoredObjects = ReturnType<typeof storedObjects>;

/** A kind to read: in the preferred version of the API server, unless a version is given. */
export type StoredKind = GroupResource & { readonly version?: string };

/**
 * @param ownNamespace the namespace of Gatehouse, which no policy governs. Undefined: a command, which reads everything
 *   that its user may read
 * @param covered the namespaces to read; undefined: all
 */
export function storedObjects(
  client: Pick<KubeClient, 'get' | 'list' | 'pages' | 'listAll'>,
  discovery: Pick<Discovery, 'resolve'>,
  ownNamespace?: string,
  covered?: Namespaces,
) {
  return {
    /** Every object of a kind, page by page. Throws when the kind cannot be read. */
    pages: async function* (
      resource: StoredKind,
      signal: AbortSignal,
    ): AsyncGenerator<readonly KubeObject[], void, undefined> {
      const kind = await served(discovery, resource, signal);
      const { version = kind.version } = resource;
      if (ownNamespace !== undefined && isSecret(kind) && !(await namesSecrets(client, signal)))
        throw new Error(missingAccessMessage('secrets', [kind]));
      for (const namespace of placesOf(kind, covered))
        for await (const page of client.pages<KubeObject>({ ...kind, version }, { namespace, signal }))
          yield page.items.filter(
            ({ metadata }) => ownNamespace === undefined || metadata?.namespace !== ownNamespace,
          );
    },
    keys: async (resource: GroupResource, signal: AbortSignal): Promise<ReadonlySet<string>> => {
      const kind = await served(discovery, resource, signal);
      const items = await listIn(client, kind, covered, { metadataOnly: true, signal });
      return new Set(items.map(keyOf));
    },
    /** The approximate number of objects; undefined if the API server does not report it. Throws like `pages`. */
    count: async (resource: GroupResource, signal: AbortSignal): Promise<number | undefined> => {
      const kind = await served(discovery, resource, signal);
      const counts = await Promise.all(
        placesOf(kind, covered).map(async (namespace) => {
          const options = { namespace, limit: 1, metadataOnly: true, signal };
          const { items, metadata } = await client.list(kind, options);
          if (!metadata.continue) return items.length;
          return metadata.remainingItemCount && items.length + metadata.remainingItemCount;
        }),
      );
      return counts.reduce(
        (sum, count) => (sum === undefined || count === undefined ? undefined : sum + count),
        0,
      );
    },
    read: async (ref: ObjectRef & StoredKind, signal: AbortSignal): Promise<KubeObject | undefined> => {
      const kind = await served(discovery, ref, signal);
      const { version = kind.version } = ref;
      return await client.get({ ...kind, version }, ref, { signal });
    },
    namespaceLabels: async (signal: AbortSignal): Promise<NamespaceLabels> => {
      const { items } = await client.listAll(namespaces, { metadataOnly: true, signal });
      return new Map(items.map(({ metadata }) => [metadata?.name ?? '', metadata?.labels ?? {}]));
    },
  };
}

/** Reads stored objects live from the API server, without any cache of this replica. */
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import { keyOf, type GroupResource, type KubeObject, type ObjectRef } from '../../json/kube-object.ts';
import { namespaces } from '../../kube/well-known.ts';
import type { NamespaceLabels } from '../../admission/policy/match/object-scope.ts';
import { served } from './world.ts';

export interface StoredObjects {
  /** Every object of a kind, page by page. Throws when the kind cannot be read. */
  readonly pages: (
    resource: GroupResource & { readonly version?: string },
    signal: AbortSignal,
  ) => AsyncIterable<readonly KubeObject[]>;
  readonly keys: (resource: GroupResource, signal: AbortSignal) => Promise<ReadonlySet<string>>;
  /** The approximate number of objects; undefined if the API server does not report it. Throws like `pages`. */
  readonly count: (resource: GroupResource, signal: AbortSignal) => Promise<number | undefined>;
  readonly read: (ref: ObjectRef, signal: AbortSignal) => Promise<KubeObject | undefined>;
  readonly namespaceLabels: (signal: AbortSignal) => Promise<NamespaceLabels>;
}

export function storedObjects(
  client: Pick<KubeClient, 'get' | 'list' | 'pages' | 'listAll'>,
  discovery: Pick<Discovery, 'resolve'>,
): StoredObjects {
  return {
    pages: async function* (resource, signal) {
      const kind = await served(discovery, resource, signal);
      const { version = kind.version } = resource;
      for await (const page of client.pages<KubeObject>({ ...kind, version }, { signal })) yield page.items;
    },
    keys: async (resource, signal) => {
      const kind = await served(discovery, resource, signal);
      const { items } = await client.listAll(kind, { metadataOnly: true, signal });
      return new Set(items.map(keyOf));
    },
    count: async (resource, signal) => {
      const kind = await served(discovery, resource, signal);
      const { items, metadata } = await client.list(kind, { limit: 1, metadataOnly: true, signal });
      if (!metadata.continue) return items.length;
      return metadata.remainingItemCount && items.length + metadata.remainingItemCount;
    },
    read: async (ref, signal) => await client.get(await served(discovery, ref, signal), ref, { signal }),
    namespaceLabels: async (signal) => {
      const { items } = await client.listAll(namespaces, { metadataOnly: true, signal });
      return new Map(items.map(({ metadata }) => [metadata?.name ?? '', metadata?.labels ?? {}]));
    },
  };
}

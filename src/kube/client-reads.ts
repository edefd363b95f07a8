/* eslint-disable @typescript-eslint/no-unnecessary-type-parameters --
   Nothing at run time knows what the API server serves for a resource: the caller names it. */
import { isGone, isNotFound, ListExpiredError } from './api-error.ts';
import type { CallOptions, KubeClient, ListOptions, ObjectMetadata } from './client.ts';
import type { KubeObject } from '../json/kube-object.ts';
import { withKind, type KubeList, type NamedRef, type Resource } from './object.ts';
import { resourcePath } from './path.ts';
import type { Query, Rest } from './rest.ts';

/** As client-go: at 10 KB each a page is 5 MB, which neither side notices. */
const PAGE_SIZE = 500;

const PARTIAL = 'g=meta.k8s.io;v=v1';
export const METADATA_ACCEPT = `application/json;as=PartialObjectMetadata;${PARTIAL}`;
export const METADATA_LIST_ACCEPT = `application/json;as=PartialObjectMetadataList;${PARTIAL}`;

export type KubeReads = Pick<KubeClient, 'get' | 'getMetadata' | 'list' | 'pages' | 'listAll'>;

export function createReads(rest: Rest): KubeReads {
  const get = async <T extends KubeObject>(
    resource: Resource,
    ref: NamedRef,
    options: CallOptions & { readonly accept?: string } = {},
  ) => {
    const { accept, ...call } = options;
    try {
      const headers = accept === undefined ? undefined : { accept };
      return await rest.request<T>({
        ...callOf(call),
        method: 'GET',
        path: resourcePath(resource, { namespace: ref.namespace, name: ref.name }),
        headers,
      });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  };

  const list = async <T extends KubeObject>(
    resource: Resource,
    options: ListOptions = {},
  ): Promise<KubeList<T>> => {
    const { namespace, metadataOnly = false } = options;
    const page = await rest.request<KubeList<T>>({
      ...callOf(options),
      method: 'GET',
      path: resourcePath(resource, { namespace }),
      query: listQuery(options),
      headers: metadataOnly ? { accept: METADATA_LIST_ACCEPT } : undefined,
    });
    // Lists leave out what all items have in common, and an empty one may be null.
    const items = (page.items as readonly T[] | null | undefined) ?? [];
    return { ...page, items: items.map((item) => withKind(resource, item)) };
  };

  const pages: KubeClient['pages'] = async function* <T extends KubeObject>(
    resource: Resource,
    options: ListOptions = {},
  ) {
    let next = options.continue;
    do {
      const page: KubeList<T> = await nextPage<T>(list, resource, {
        limit: PAGE_SIZE,
        ...options,
        continue: next,
      });
      yield page;
      next = page.metadata.continue;
    } while (next !== undefined && next !== '');
  };

  return {
    get: (resource, ref, options) => get(resource, ref, options),
    getMetadata: async (resource, ref, options) => {
      const found = await get<ObjectMetadata>(resource, ref, { ...options, accept: METADATA_ACCEPT });
      return found === undefined ? undefined : withKind(resource, found);
    },
    list,
    pages,
    listAll: async <T extends KubeObject>(resource: Resource, options?: ListOptions) => {
      const items: T[] = [];
      let last: KubeList<T> | undefined;
      for await (const page of pages<T>(resource, options)) {
        for (const item of page.items) items.push(item);
        last = page;
      }
      return { ...last, metadata: { ...last?.metadata }, items };
    },
  };
}

async function nextPage<T extends KubeObject>(
  list: KubeClient['list'],
  resource: Resource,
  options: ListOptions,
): Promise<KubeList<T>> {
  try {
    return await list<T>(resource, options);
  } catch (error) {
    if (isGone(error) && options.continue !== undefined) throw new ListExpiredError(error);
    throw error;
  }
}

function listQuery(options: ListOptions): Query {
  const { labelSelector, fieldSelector, limit, resourceVersion } = options;
  return { labelSelector, fieldSelector, limit, continue: options.continue, resourceVersion };
}

export function callOf({ signal, timeoutMs }: CallOptions) {
  return { signal, timeoutMs };
}

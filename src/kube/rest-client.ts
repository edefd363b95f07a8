/* eslint-disable @typescript-eslint/no-unnecessary-type-parameters --
   The caller names the type of a resource: nothing at run time knows what the API server serves. */
import { isGone, isNotFound, ListExpiredError } from './api-error.ts';
import type {
  CallOptions,
  KubeClient,
  ListOptions,
  ObjectMetadata,
  ApplyOptions,
  WriteOptions,
} from './client.ts';
import { type KubeObject, groupResourceName } from '../json/kube-object.ts';
import { withKind, type KubeList, type NamedRef, type Resource, resourcePath } from './object.ts';
import { type Query, type Rest, APPLY_PATCH } from './rest.ts';

/** As in client-go. With 10 KB per object, a page has 5 MB: a small load for both sides. */
const PAGE_SIZE = 500;

const PARTIAL = 'g=meta.k8s.io;v=v1';
export const METADATA_ACCEPT = `application/json;as=PartialObjectMetadata;${PARTIAL}`;
const METADATA_LIST_ACCEPT = `application/json;as=PartialObjectMetadataList;${PARTIAL}`;

export function createClient(rest: Rest): KubeClient {
  return { ...createReads(rest), ...createWrites(rest) };
}

type KubeReads = Pick<KubeClient, 'get' | 'getMetadata' | 'list' | 'pages' | 'listAll'>;

function createReads(rest: Rest): KubeReads {
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
    // The items of a list have no apiVersion and kind, and `items` of an empty list may be null.
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

function callOf({ signal, timeoutMs }: CallOptions) {
  return { signal, timeoutMs };
}

type KubeWrites = Omit<KubeClient, 'get' | 'getMetadata' | 'list' | 'pages' | 'listAll'>;

function createWrites(rest: Rest): KubeWrites {
  const put = <T extends KubeObject>(
    resource: Resource,
    object: T,
    options: WriteOptions = {},
    subresource?: string,
  ) => {
    const ref = refInside(resource, object);
    const version = object.metadata?.resourceVersion;
    if (version === undefined || version === '') {
      throw new Error(
        `${groupResourceName(resource)} ${ref.name} has no resourceVersion: read it before you replace it, or use apply`,
      );
    }
    return rest.request<T>({
      ...writeOf(options),
      method: 'PUT',
      path: pathOf(resource, ref, subresource),
      body: withKind(resource, object),
    });
  };

  const patch = <T extends KubeObject>(
    contentType: string,
    resource: Resource,
    ref: NamedRef,
    body: unknown,
    options: WriteOptions = {},
    subresource?: string,
  ) =>
    rest.request<T>({
      ...writeOf(options),
      method: 'PATCH',
      path: pathOf(resource, ref, subresource),
      contentType,
      body,
    });

  const apply = <T extends KubeObject>(
    resource: Resource,
    object: KubeObject,
    options: ApplyOptions,
    subresource?: string,
  ) => {
    const request = writeOf(options);
    return rest.request<T>({
      ...request,
      query: { ...request.query, force: options.force },
      method: 'PATCH',
      path: pathOf(resource, refInside(resource, object), subresource),
      contentType: APPLY_PATCH,
      body: withKind(resource, object),
    });
  };

  return {
    create: async (resource, object, options = {}) => {
      const path = resourcePath(resource, { namespace: namespaceInside(resource, object) });
      return rest.request({ ...writeOf(options), method: 'POST', path, body: withKind(resource, object) });
    },
    replace: async (resource, object, options) => put(resource, object, options),
    replaceStatus: async (resource, object, options) => put(resource, object, options, 'status'),
    patchJson: async (resource, ref, operations, options) =>
      patch('application/json-patch+json', resource, ref, operations, options),
    patchMerge: async (resource, ref, body, options) =>
      patch('application/merge-patch+json', resource, ref, body, options),
    patchStatus: async (resource, ref, body, options) =>
      patch('application/merge-patch+json', resource, ref, body, options, 'status'),
    apply: async (resource, object, options) => apply(resource, object, options),
    applyStatus: async (resource, object, options) => apply(resource, object, options, 'status'),
    delete: async (resource, ref, options = {}) => {
      const { preconditions, propagationPolicy, dryRun = false, beforeSend } = options;
      // The API server reads the options from the body or from the query, never from both.
      const body = {
        apiVersion: 'v1',
        kind: 'DeleteOptions',
        preconditions,
        propagationPolicy,
        dryRun: dryRun ? ['All'] : undefined,
      };
      try {
        await rest.request({
          ...callOf(options),
          beforeSend,
          method: 'DELETE',
          path: pathOf(resource, ref),
          body,
        });
        return 'deleted';
      } catch (error) {
        if (isNotFound(error)) return 'absent';
        throw error;
      }
    },
  };
}

function pathOf(resource: Resource, { namespace, name }: NamedRef, subresource?: string): string {
  return resourcePath(resource, { namespace, name, subresource });
}

function namespaceInside(resource: Resource, object: KubeObject): string | undefined {
  const namespace = object.metadata?.namespace;
  if (!resource.namespaced) return undefined;
  if (namespace === undefined || namespace === '') {
    throw new Error(
      `${groupResourceName(resource)} is namespaced: set metadata.namespace of "${object.metadata?.name ?? ''}"`,
    );
  }
  return namespace;
}

function refInside(resource: Resource, object: KubeObject): NamedRef {
  return { namespace: namespaceInside(resource, object), name: object.metadata?.name ?? '' };
}

function writeOf(options: WriteOptions) {
  const { dryRun = false, fieldManager, beforeSend } = options;
  return { ...callOf(options), beforeSend, query: { dryRun: dryRun ? 'All' : undefined, fieldManager } };
}

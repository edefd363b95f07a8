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
import type { Headers } from './rest/credentials.ts';
import { type KubeObject, groupResourceName } from '../json/kube-object.ts';
import { withKind, type KubeList, type NamedRef, type Resource, resourcePath } from './object.ts';
import { type Rest, APPLY_PATCH } from './rest.ts';

/** As in client-go. With 10 KB per object, a page has 5 MB: a small load for both sides. */
const PAGE_SIZE = 500;

const PARTIAL = 'g=meta.k8s.io;v=v1';
export const METADATA_ACCEPT = `application/json;as=PartialObjectMetadata;${PARTIAL}`;
const METADATA_LIST_ACCEPT = `application/json;as=PartialObjectMetadataList;${PARTIAL}`;

type Reads = 'get' | 'getMetadata' | 'list' | 'pages' | 'listAll';

export function createClient(rest: Rest): KubeClient {
  return { ...createReads(rest), ...createWrites(rest) };
}

function createReads(rest: Rest): Pick<KubeClient, Reads> {
  const get = async <T extends KubeObject>(
    resource: Resource,
    ref: NamedRef,
    options: CallOptions = {},
    headers?: Headers,
  ) => {
    try {
      const path = resourcePath(resource, ref);
      return await rest.request<T>({ ...callOf(options), method: 'GET', path, headers });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  };

  const list = async <T extends KubeObject>(
    resource: Resource,
    options: ListOptions = {},
  ): Promise<KubeList<T>> => {
    const { namespace, metadataOnly = false, labelSelector, fieldSelector, limit, resourceVersion } = options;
    const page = await rest.request<KubeList<T>>({
      ...callOf(options),
      method: 'GET',
      path: resourcePath(resource, { namespace }),
      query: { labelSelector, fieldSelector, limit, continue: options.continue, resourceVersion },
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
      const query = { limit: PAGE_SIZE, ...options, continue: next };
      const page: KubeList<T> = await list<T>(resource, query).catch((error: unknown) => {
        throw isGone(error) && query.continue !== undefined ? new ListExpiredError(error) : error;
      });
      yield page;
      next = page.metadata.continue;
    } while (next !== undefined && next !== '');
  };

  return {
    get: (resource, ref, options) => get(resource, ref, options),
    getMetadata: async (resource, ref, options) => {
      const found = await get<ObjectMetadata>(resource, ref, options, { accept: METADATA_ACCEPT });
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

function callOf({ signal, timeoutMs }: CallOptions) {
  return { signal, timeoutMs };
}

function createWrites(rest: Rest): Omit<KubeClient, Reads> {
  const write = <T>(
    method: 'POST' | 'PUT' | 'PATCH',
    path: string,
    body: unknown,
    options: WriteOptions & Pick<ApplyOptions, 'force'> = {},
    contentType?: string,
  ) => {
    const { dryRun = false, fieldManager, force, beforeSend } = options;
    const query = { dryRun: dryRun ? 'All' : undefined, fieldManager, force };
    return rest.request<T>({ ...callOf(options), beforeSend, query, method, path, contentType, body });
  };

  const put = <T extends KubeObject>(
    resource: Resource,
    object: T,
    options: WriteOptions | undefined,
    subresource?: string,
  ) => {
    const ref = refInside(resource, object);
    const version = object.metadata?.resourceVersion;
    if (version === undefined || version === '')
      throw new Error(
        `${groupResourceName(resource)} ${ref.name} has no resourceVersion: read it before you replace it, or use apply`,
      );
    return write<T>('PUT', resourcePath(resource, ref, subresource), withKind(resource, object), options);
  };

  return {
    create: async (resource, object, options) => {
      const path = resourcePath(resource, { namespace: namespaceInside(resource, object) });
      return write('POST', path, withKind(resource, object), options);
    },
    replace: async (resource, object, options) => put(resource, object, options),
    replaceStatus: async (resource, object, options) => put(resource, object, options, 'status'),
    patchJson: async (resource, ref, operations, options) =>
      write('PATCH', resourcePath(resource, ref), operations, options, 'application/json-patch+json'),
    patchMerge: async (resource, ref, body, options) =>
      write('PATCH', resourcePath(resource, ref), body, options, 'application/merge-patch+json'),
    patchStatus: async (resource, ref, body, options) =>
      write('PATCH', resourcePath(resource, ref, 'status'), body, options, 'application/merge-patch+json'),
    apply: async (resource, object, options) => {
      const path = resourcePath(resource, refInside(resource, object));
      return write('PATCH', path, withKind(resource, object), options, APPLY_PATCH);
    },
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
          path: resourcePath(resource, ref),
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

function namespaceInside(resource: Resource, object: KubeObject): string | undefined {
  const namespace = object.metadata?.namespace;
  if (!resource.namespaced) return undefined;
  if (namespace === undefined || namespace === '')
    throw new Error(
      `${groupResourceName(resource)} is namespaced: set metadata.namespace of "${object.metadata?.name ?? ''}"`,
    );
  return namespace;
}

function refInside(resource: Resource, object: KubeObject): NamedRef {
  return { namespace: namespaceInside(resource, object), name: object.metadata?.name ?? '' };
}

/* eslint-disable @typescript-eslint/no-unnecessary-type-parameters --
   Nothing at run time knows what the API server serves for a resource: the caller names it. */
import { ApiError, isGone, isNotFound, ListExpiredError } from './api-error.ts';
import { apiVersionOf, resourceName } from './object.ts';
import type { KubeList, KubeMeta, KubeObject, NamedRef, Resource } from './object.ts';
import { resourcePath } from './path.ts';
import { APPLY_PATCH, type Query, type Rest } from './rest.ts';

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** For all attempts together, in milliseconds. Default: 30 s. */
  readonly timeoutMs?: number | undefined;
}

export interface WriteOptions extends CallOptions {
  /** Everything happens but the write itself. */
  readonly dryRun?: boolean | undefined;
  /** Who owns the fields written. Default: the API server takes the user agent. */
  readonly fieldManager?: string | undefined;
  /** Called right before each attempt; what it throws is the result. */
  readonly beforeSend?: (() => void) | undefined;
}

export interface ApplyOptions extends WriteOptions {
  readonly fieldManager: string;
  /** Takes fields from other managers instead of failing with a conflict. */
  readonly force?: boolean | undefined;
}

export interface DeleteOptions extends WriteOptions {
  /** The delete fails with a conflict when they do not hold. */
  readonly preconditions?: { readonly uid?: string | undefined; readonly resourceVersion?: string | undefined };
  readonly propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
}

export interface ListOptions extends CallOptions {
  /** Without it: all namespaces. */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /** Objects per page. Default: 500 when reading all pages, otherwise no limit. */
  readonly limit?: number | undefined;
  readonly continue?: string | undefined;
  /** Without it the list is read from etcd (quorum); `0` takes what the API server has in its cache. */
  readonly resourceVersion?: string | undefined;
  /** Only apiVersion, kind and metadata of each object. */
  readonly metadataOnly?: boolean | undefined;
}

/** RFC 6902. */
export type JsonPatchOperation =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string }
  | { readonly op: 'move' | 'copy'; readonly from: string; readonly path: string };

/** An object without spec and status: what a metadata-only read returns. */
export interface ObjectMetadata extends KubeObject {
  readonly metadata: KubeMeta;
}

type Ref = NamedRef;

/**
 * Reads and writes of any resource. Objects go over the wire as plain JSON: nothing unknown is dropped.
 * Every function throws {ApiError} when the API server refuses, {NetworkError} when there is no answer.
 */
export interface KubeClient {
  /** Undefined when there is no such object. */
  readonly get: <T extends KubeObject>(resource: Resource, ref: Ref, options?: CallOptions) => Promise<T | undefined>;
  /** As `get`, but the API server sends no more than the metadata. */
  readonly getMetadata: (resource: Resource, ref: Ref, options?: CallOptions) => Promise<ObjectMetadata | undefined>;
  /** One page. */
  readonly list: <T extends KubeObject>(resource: Resource, options?: ListOptions) => Promise<KubeList<T>>;
  /** Page by page, all of one resourceVersion. @throws {ListExpiredError} when it took too long: start again */
  readonly pages: <T extends KubeObject>(resource: Resource, options?: ListOptions) => AsyncGenerator<KubeList<T>, void, undefined>;
  /** All pages as one list. @throws {ListExpiredError} as `pages` */
  readonly listAll: <T extends KubeObject>(resource: Resource, options?: ListOptions) => Promise<KubeList<T>>;
  /** POST into the namespace that the object names. */
  readonly create: <T extends KubeObject>(resource: Resource, object: T, options?: WriteOptions) => Promise<T>;
  /** PUT. @throws when the object has no resourceVersion: nothing is overwritten that has not been read */
  readonly replace: <T extends KubeObject>(resource: Resource, object: T, options?: WriteOptions) => Promise<T>;
  readonly replaceStatus: <T extends KubeObject>(resource: Resource, object: T, options?: WriteOptions) => Promise<T>;
  readonly patchJson: <T extends KubeObject>(resource: Resource, ref: Ref, operations: readonly JsonPatchOperation[], options?: WriteOptions) => Promise<T>;
  /** RFC 7386: null removes, lists are replaced as a whole. */
  readonly patchMerge: <T extends KubeObject>(resource: Resource, ref: Ref, patch: object, options?: WriteOptions) => Promise<T>;
  /** As `patchMerge`, of the subresource status. */
  readonly patchStatus: <T extends KubeObject>(resource: Resource, ref: Ref, patch: object, options?: WriteOptions) => Promise<T>;
  /** Server-side apply: after it, this manager owns exactly the fields that `object` has. */
  readonly apply: <T extends KubeObject>(resource: Resource, object: KubeObject, options: ApplyOptions) => Promise<T>;
  readonly applyStatus: <T extends KubeObject>(resource: Resource, object: KubeObject, options: ApplyOptions) => Promise<T>;
  /** `absent` when there was nothing to delete. */
  readonly delete: (resource: Resource, ref: Ref, options?: DeleteOptions) => Promise<'deleted' | 'absent'>;
}

/** As client-go: at 10 KB each a page is 5 MB, which neither side notices. */
const PAGE_SIZE = 500;

const PARTIAL = 'g=meta.k8s.io;v=v1';
export const METADATA_ACCEPT = `application/json;as=PartialObjectMetadata;${PARTIAL}`;
export const METADATA_LIST_ACCEPT = `application/json;as=PartialObjectMetadataList;${PARTIAL}`;

export function createClient(rest: Rest): KubeClient {
  return { ...readers(rest), ...writers(rest) };
}

type Readers = Pick<KubeClient, 'get' | 'getMetadata' | 'list' | 'pages' | 'listAll'>;

function readers(rest: Rest): Readers {
  const get = async <T extends KubeObject>(resource: Resource, ref: Ref, options: CallOptions & { readonly accept?: string } = {}) => {
    const { accept, ...call } = options;
    try {
      const headers = accept === undefined ? undefined : { accept };
      return await rest.request<T>({ ...callOf(call), method: 'GET', path: pathOf(resource, ref), headers });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  };

  const list = async <T extends KubeObject>(resource: Resource, options: ListOptions = {}): Promise<KubeList<T>> => {
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

  const pages: KubeClient['pages'] = async function* <T extends KubeObject>(resource: Resource, options: ListOptions = {}) {
    let next = options.continue;
    do {
      const page: KubeList<T> = await nextPage<T>(list, resource, { limit: PAGE_SIZE, ...options, continue: next });
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

type Writers = Omit<KubeClient, keyof Readers>;

function writers(rest: Rest): Writers {
  const put = <T extends KubeObject>(resource: Resource, object: T, options: WriteOptions = {}, subresource?: string) => {
    const ref = refInside(resource, object);
    const version = object.metadata?.resourceVersion;
    if (version === undefined || version === '') {
      throw new Error(
        `${resourceName(resource)} ${ref.name} has no resourceVersion: read it before you replace it, or use apply`,
      );
    }
    return rest.request<T>({ ...writeOf(options), method: 'PUT', path: pathOf(resource, ref, subresource), body: withKind(resource, object) });
  };

  const patch = <T extends KubeObject>(contentType: string, resource: Resource, ref: Ref, body: unknown, options: WriteOptions = {}, subresource?: string) =>
    rest.request<T>({ ...writeOf(options), method: 'PATCH', path: pathOf(resource, ref, subresource), contentType, body });

  const apply = <T extends KubeObject>(resource: Resource, object: KubeObject, options: ApplyOptions, subresource?: string) => {
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
    patchJson: async (resource, ref, operations, options) => patch('application/json-patch+json', resource, ref, operations, options),
    patchMerge: async (resource, ref, body, options) => patch('application/merge-patch+json', resource, ref, body, options),
    patchStatus: async (resource, ref, body, options) => patch('application/merge-patch+json', resource, ref, body, options, 'status'),
    apply: async (resource, object, options) => apply(resource, object, options),
    applyStatus: async (resource, object, options) => apply(resource, object, options, 'status'),
    delete: async (resource, ref, options = {}) => {
      const { preconditions, propagationPolicy } = options;
      const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions, propagationPolicy };
      const { query, ...call } = writeOf(options);
      // A DELETE has no field manager; the API server would warn of an unknown parameter.
      const { dryRun } = query;
      try {
        await rest.request({ ...call, query: { dryRun }, method: 'DELETE', path: pathOf(resource, ref), body });
        return 'deleted';
      } catch (error) {
        if (isNotFound(error)) return 'absent';
        throw error;
      }
    },
  };
}

/**
 * The operations, valid only for the object as it was read: a `test` on its resourceVersion goes first, so a JSON patch
 * computed from a stale copy fails (422 Invalid) instead of hitting the wrong list element.
 * @throws when the object has no resourceVersion
 */
export function guardedJsonPatch(object: KubeObject, operations: readonly JsonPatchOperation[]): readonly JsonPatchOperation[] {
  const value = object.metadata?.resourceVersion;
  if (value === undefined || value === '') throw new Error('only an object that was read can be guarded: it has no resourceVersion');
  return [{ op: 'test', path: '/metadata/resourceVersion', value }, ...operations];
}

/** The object with the apiVersion and kind of its resource. */
export function withKind<T extends KubeObject>(resource: Resource, object: T): T {
  return { ...object, apiVersion: apiVersionOf(resource), kind: resource.kind };
}

export function listQuery(options: ListOptions): Query {
  const { labelSelector, fieldSelector, limit, resourceVersion } = options;
  return { labelSelector, fieldSelector, limit, continue: options.continue, resourceVersion };
}

function pathOf(resource: Resource, { namespace, name }: Ref, subresource?: string): string {
  return resourcePath(resource, { namespace, name, subresource });
}

function namespaceInside(resource: Resource, object: KubeObject): string | undefined {
  const namespace = object.metadata?.namespace;
  if (!resource.namespaced) return undefined;
  if (namespace === undefined || namespace === '') {
    throw new Error(`${resourceName(resource)} is namespaced: set metadata.namespace of "${object.metadata?.name ?? ''}"`);
  }
  return namespace;
}

function refInside(resource: Resource, object: KubeObject): Ref {
  return { namespace: namespaceInside(resource, object), name: object.metadata?.name ?? '' };
}

function callOf({ signal, timeoutMs }: CallOptions) {
  return { signal, timeoutMs };
}

function writeOf(options: WriteOptions) {
  const { dryRun = false, fieldManager, beforeSend } = options;
  return { ...callOf(options), beforeSend, query: { dryRun: dryRun ? 'All' : undefined, fieldManager } };
}

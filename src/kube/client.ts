/* eslint-disable @typescript-eslint/no-unnecessary-type-parameters --
   The caller names the type of a resource: nothing at run time knows what the API server serves. */
import type { JsonPatchOperation } from '../json/json-patch.ts';
import { groupResourceName, type KubeObject, type ObjectMeta } from '../json/kube-object.ts';
import { insteadOf, isGone, isNotFound, ListExpiredError } from './api-error.ts';
import { withKind, type KubeList, type NamedRef, type Resource, resourcePath } from './object.ts';
import type { Headers } from './rest/credentials.ts';
import { type Rest, APPLY_PATCH } from './rest.ts';

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** For all attempts together, in milliseconds. Default: 30 s. */
  readonly timeoutMs?: number | undefined;
}

export interface WriteOptions extends CallOptions {
  readonly dryRun?: boolean | undefined;
  /** The owner of the written fields. Default: the API server uses the user agent. */
  readonly fieldManager?: string | undefined;
  /** Closes the connection. A load balancer may lead the next one to another API server. */
  readonly isLastOnConnection?: boolean | undefined;
}

export interface ApplyOptions extends WriteOptions {
  readonly fieldManager: string;
  /** Takes fields from other managers instead of failing with a conflict. */
  readonly force?: boolean | undefined;
}

export interface DeleteOptions extends WriteOptions {
  /** If they do not hold, the delete fails with a conflict. */
  readonly preconditions?: {
    readonly uid?: string | undefined;
    readonly resourceVersion?: string | undefined;
  };
  readonly propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
}

export interface ListOptions extends CallOptions {
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /** Objects per page. Default: 500 when reading all pages, otherwise no limit. */
  readonly limit?: number | undefined;
  readonly continue?: string | undefined;
  /** If the list expires between two pages, continues with newer objects. It still lists each object once. */
  readonly resume?: boolean | undefined;
  readonly metadataOnly?: boolean | undefined;
}

const PAGE_SIZE = 500;

const PARTIAL = 'g=meta.k8s.io;v=v1';
export const METADATA_ACCEPT = `application/json;as=PartialObjectMetadata;${PARTIAL}`;
const METADATA_LIST_ACCEPT = `application/json;as=PartialObjectMetadataList;${PARTIAL}`;
const MERGE_PATCH = 'application/merge-patch+json';

export type KubeClient = ReturnType<typeof createClient>;

/** Objects are plain JSON. @throws {ApiError} when the API server refuses, {NetworkError} when there is no response */
export const createClient = (rest: Rest) => ({ ...createReads(rest), ...createWrites(rest) });

function createReads(rest: Rest) {
  const read = async <T extends KubeObject>(
    resource: Resource,
    ref: NamedRef,
    options: CallOptions = {},
    headers?: Headers,
  ): Promise<T | undefined> => {
    const path = resourcePath(resource, ref);
    const reading = rest.request<T>({ ...callOf(options), method: 'GET', path, headers });
    return await reading.catch(insteadOf(isNotFound, undefined));
  };

  const list = async <T extends KubeObject>(
    resource: Resource,
    options: ListOptions = {},
  ): Promise<KubeList<T>> => {
    const { namespace, metadataOnly = false, labelSelector, fieldSelector, limit } = options;
    const page = await rest.request<KubeList<T>>({
      ...callOf(options),
      method: 'GET',
      path: resourcePath(resource, { namespace }),
      query: { labelSelector, fieldSelector, limit, continue: options.continue },
      headers: metadataOnly ? { accept: METADATA_LIST_ACCEPT } : undefined,
    });
    // Items of a list lack apiVersion and kind, and `items` of an empty list may be null.
    const items = (page.items as readonly T[] | null | undefined) ?? [];
    return { ...page, items: items.map((item) => withKind(resource, item)) };
  };

  async function* pages<T extends KubeObject>(
    resource: Resource,
    options: ListOptions = {},
  ): AsyncGenerator<KubeList<T>, void, undefined> {
    let next = options.continue;
    do {
      const query = { limit: PAGE_SIZE, ...options, continue: next };
      const page: KubeList<T> = await list<T>(resource, query).catch((error: unknown) => {
        if (!isGone(error) || query.continue === undefined) throw error;
        if (options.resume !== true || error.continue === '') throw new ListExpiredError(error);
        return list<T>(resource, { ...query, continue: error.continue });
      });
      yield page;
      next = page.metadata.continue;
    } while (next !== undefined && next !== '');
  }

  return {
    get: <T extends KubeObject>(resource: Resource, ref: NamedRef, options?: CallOptions) =>
      read<T>(resource, ref, options),
    getMetadata: async (resource: Resource, ref: NamedRef, options?: CallOptions) => {
      const headers = { accept: METADATA_ACCEPT };
      const found = await read<KubeObject & { readonly metadata: ObjectMeta }>(
        resource,
        ref,
        options,
        headers,
      );
      return found === undefined ? undefined : withKind(resource, found);
    },
    list,
    /** All pages, at one resourceVersion unless `resume` is true. @throws {ListExpiredError} when it took too long: start again */
    pages,
    listAll: async <T extends KubeObject>(
      resource: Resource,
      options?: ListOptions,
    ): Promise<KubeList<T>> => {
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

const callOf = ({ signal, timeoutMs }: CallOptions) => ({ signal, timeoutMs });

function createWrites(rest: Rest) {
  const write = <T>(
    method: 'POST' | 'PUT' | 'PATCH',
    path: string,
    body: unknown,
    options: WriteOptions & Pick<ApplyOptions, 'force'> = {},
    contentType?: string,
  ) => {
    const { dryRun = false, fieldManager, force, isLastOnConnection } = options;
    const query = { dryRun: dryRun ? 'All' : undefined, fieldManager, force };
    return rest.request<T>({
      ...callOf(options),
      query,
      method,
      path,
      contentType,
      body,
      isLastOnConnection,
    });
  };

  const put =
    (subresource?: string) =>
    async <T extends KubeObject>(resource: Resource, object: T, options?: WriteOptions) => {
      const ref = refInside(resource, object);
      const version = object.metadata?.resourceVersion;
      if (version === undefined || version === '')
        throw new Error(
          `${groupResourceName(resource)} ${ref.name} lacks a resourceVersion: read it before you replace it, or use apply`,
        );
      return write<T>('PUT', resourcePath(resource, ref, subresource), withKind(resource, object), options);
    };

  const patch =
    <Body extends object>(contentType: string, subresource?: string) =>
    async <T extends KubeObject>(resource: Resource, ref: NamedRef, body: Body, options?: WriteOptions) =>
      write<T>('PATCH', resourcePath(resource, ref, subresource), body, options, contentType);

  return {
    create: async <T extends KubeObject>(resource: Resource, object: T, options?: WriteOptions) => {
      const path = resourcePath(resource, { namespace: namespaceInside(resource, object) });
      return write<T>('POST', path, withKind(resource, object), options);
    },
    /** PUT. @throws when the object lacks a resourceVersion: read an object before you overwrite it */
    replace: put(),
    replaceStatus: put('status'),
    patchJson: patch<readonly JsonPatchOperation[]>('application/json-patch+json'),
    /** RFC 7386: null removes a field, and a list is replaced as a whole. */
    patchMerge: patch(MERGE_PATCH),
    patchStatus: patch(MERGE_PATCH, 'status'),
    /** Server-side apply: afterwards, the field manager owns exactly the fields of `object`. */
    apply: async <T extends KubeObject>(resource: Resource, object: KubeObject, options: ApplyOptions) => {
      const path = resourcePath(resource, refInside(resource, object));
      return write<T>('PATCH', path, withKind(resource, object), options, APPLY_PATCH);
    },
    delete: async (
      resource: Resource,
      ref: NamedRef,
      options: DeleteOptions = {},
    ): Promise<'deleted' | 'absent'> => {
      const { preconditions, propagationPolicy, dryRun = false } = options;
      // The API server reads the options from the body or from the query, but not from both.
      const body = {
        apiVersion: 'v1',
        kind: 'DeleteOptions',
        preconditions,
        propagationPolicy,
        dryRun: dryRun ? ['All'] : undefined,
      };
      const path = resourcePath(resource, ref);
      const deleting = rest.request({ ...callOf(options), method: 'DELETE', path, body });
      return await deleting.then(() => 'deleted' as const, insteadOf(isNotFound, 'absent'));
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

const refInside = (resource: Resource, object: KubeObject): NamedRef => ({
  namespace: namespaceInside(resource, object),
  name: object.metadata?.name ?? '',
});

/** A patch that was computed from a stale copy fails (422 Invalid). @throws when there is no resourceVersion */
export function guardedJsonPatch(
  object: KubeObject,
  operations: readonly JsonPatchOperation[],
): readonly JsonPatchOperation[] {
  const value = object.metadata?.resourceVersion;
  if (value === undefined || value === '')
    throw new Error('the object lacks a resourceVersion: read it before you patch it');
  return [{ op: 'test', path: '/metadata/resourceVersion', value }, ...operations];
}

import type { ObjectMeta, KubeObject } from '../json/kube-object.ts';
import type { KubeList, NamedRef, Resource } from './object.ts';

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** For all attempts together, in milliseconds. Default: 30 s. */
  readonly timeoutMs?: number | undefined;
}

export interface WriteOptions extends CallOptions {
  /** The API server does everything except store the object. */
  readonly dryRun?: boolean | undefined;
  /** The owner of the written fields. Default: the API server uses the user agent. */
  readonly fieldManager?: string | undefined;
  /** Called right before each attempt. An error that it throws becomes the result. */
  readonly beforeSend?: (() => void) | undefined;
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
  /** Default: all namespaces. */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /** Objects per page. Default: 500 when reading all pages, otherwise no limit. */
  readonly limit?: number | undefined;
  readonly continue?: string | undefined;
  /** Default: a quorum read from etcd. `0` reads from the cache of the API server. */
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
  readonly metadata: ObjectMeta;
}

type WriteObject = <T extends KubeObject>(
  resource: Resource,
  object: T,
  options?: WriteOptions,
) => Promise<T>;

type Patch<Body> = <T extends KubeObject>(
  resource: Resource,
  ref: NamedRef,
  patch: Body,
  options?: WriteOptions,
) => Promise<T>;

/**
 * Reads and writes any resource. Objects are plain JSON on the wire: unknown fields survive.
 * Every function throws {ApiError} when the API server refuses, {NetworkError} when there is no response.
 */
export interface KubeClient {
  /** Undefined when the object does not exist. */
  readonly get: <T extends KubeObject>(
    resource: Resource,
    ref: NamedRef,
    options?: CallOptions,
  ) => Promise<T | undefined>;
  /** Like `get`, but the API server sends only the metadata. */
  readonly getMetadata: (
    resource: Resource,
    ref: NamedRef,
    options?: CallOptions,
  ) => Promise<ObjectMetadata | undefined>;
  /** One page. */
  readonly list: <T extends KubeObject>(resource: Resource, options?: ListOptions) => Promise<KubeList<T>>;
  /** All pages, at one resourceVersion. @throws {ListExpiredError} when it took too long: start again */
  readonly pages: <T extends KubeObject>(
    resource: Resource,
    options?: ListOptions,
  ) => AsyncGenerator<KubeList<T>, void, undefined>;
  /** All pages as one list. @throws {ListExpiredError} as `pages` */
  readonly listAll: <T extends KubeObject>(resource: Resource, options?: ListOptions) => Promise<KubeList<T>>;
  /** POST into the namespace that the object names. */
  readonly create: WriteObject;
  /** PUT. @throws when the object has no resourceVersion: read an object before you overwrite it */
  readonly replace: WriteObject;
  readonly replaceStatus: WriteObject;
  readonly patchJson: Patch<readonly JsonPatchOperation[]>;
  /** RFC 7386: null removes a field, and a list is replaced as a whole. */
  readonly patchMerge: Patch<object>;
  /** Like `patchMerge`, for the subresource `status`. */
  readonly patchStatus: Patch<object>;
  /** Server-side apply: afterwards, the field manager owns exactly the fields of `object`. */
  readonly apply: <T extends KubeObject>(
    resource: Resource,
    object: KubeObject,
    options: ApplyOptions,
  ) => Promise<T>;
  /** `absent` when there was nothing to delete. */
  readonly delete: (
    resource: Resource,
    ref: NamedRef,
    options?: DeleteOptions,
  ) => Promise<'deleted' | 'absent'>;
}

/**
 * The operations, preceded by a `test` of the resourceVersion: a JSON patch that was computed
 * from a stale copy fails (422 Invalid) instead of changing the wrong list element.
 * @throws when the object has no resourceVersion
 */
export function guardedJsonPatch(
  object: KubeObject,
  operations: readonly JsonPatchOperation[],
): readonly JsonPatchOperation[] {
  const value = object.metadata?.resourceVersion;
  if (value === undefined || value === '')
    throw new Error('the object has no resourceVersion: read it before you patch it');
  return [{ op: 'test', path: '/metadata/resourceVersion', value }, ...operations];
}

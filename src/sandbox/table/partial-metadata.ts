import type { JsonObject } from '../../json/json.ts';
import { toJson, type ApiObject } from '../../machinery/api-object.ts';
import type { MetaVersion } from '../http/content-type.ts';

/** The metadata of a list. */
export interface ListMeta {
  readonly resourceVersion: string;
  readonly continue?: string;
  readonly remainingItemCount?: number;
}

/** ListMeta on the wire, which omits absent fields. */
export const listMetaToJson = ({ resourceVersion, ...rest }: ListMeta): JsonObject => ({
  resourceVersion,
  ...(rest.continue === undefined ? {} : { continue: rest.continue }),
  ...(rest.remainingItemCount === undefined ? {} : { remainingItemCount: rest.remainingItemCount }),
});

/** The metadata of an object without its other fields. */
export const toPartialMetadata = (object: ApiObject, version: MetaVersion = 'v1'): JsonObject => ({
  kind: 'PartialObjectMetadata',
  apiVersion: `meta.k8s.io/${version}`,
  metadata: toJson(object).metadata ?? {},
});

export const toPartialMetadataList = (
  objects: readonly ApiObject[],
  meta: ListMeta,
  version: MetaVersion = 'v1',
): JsonObject => ({
  kind: 'PartialObjectMetadataList',
  apiVersion: `meta.k8s.io/${version}`,
  metadata: listMetaToJson(meta),
  items: objects.map((object) => toPartialMetadata(object, version)),
});

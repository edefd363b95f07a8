import type { JsonObject } from '../../../json/json.ts';
import { toJson, type ApiObject } from '../../machinery/api-object.ts';
import type { MetaVersion } from '../http/content-type.ts';

/** A list's own metadata. */
export interface ListMeta {
  readonly resourceVersion: string;
  readonly continue?: string;
  readonly remainingItemCount?: number;
}

/** ListMeta on the wire, which leaves out what there is not. */
export const listMetaToJson = ({ resourceVersion, ...rest }: ListMeta): JsonObject => ({
  resourceVersion,
  ...(rest.continue === undefined ? {} : { continue: rest.continue }),
  ...(rest.remainingItemCount === undefined ? {} : { remainingItemCount: rest.remainingItemCount }),
});

/** An object without all but its metadata. */
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

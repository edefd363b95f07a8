import type { KubeObject } from '../json/kube-object.ts';

export interface KubeList<T extends KubeObject> {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: KubeListMeta;
  readonly items: readonly T[];
}

export interface KubeListMeta {
  /** The state of the cluster that all pages of the list show. */
  readonly resourceVersion?: string;
  /** What to ask for to get the next page; absent on the last. */
  readonly continue?: string;
  readonly remainingItemCount?: number;
}

/** A resource as the API server serves it. */
export interface Resource {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  /** Plural, lower case, e.g. `datacenters`. */
  readonly resource: string;
  readonly kind: string;
  readonly namespaced: boolean;
}

/** One object of a known resource; the namespace of a cluster-scoped object is undefined. */
export interface NamedRef {
  readonly namespace?: string | undefined;
  readonly name: string;
}

/** `v1` for the core group, otherwise `group/version`. */
export function apiVersionOf({ group, version }: Pick<Resource, 'group' | 'version'>): string {
  return group === '' ? version : `${group}/${version}`;
}

/** The object with the apiVersion and kind of its resource. */
export function withKind<T extends KubeObject>(resource: Resource, object: T): T {
  return { ...object, apiVersion: apiVersionOf(resource), kind: resource.kind };
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

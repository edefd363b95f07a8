/** What every object of the Kubernetes API has in common, as it stands in JSON. */

/** @see https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/ */
export interface ObjectMeta {
  readonly name?: string;
  readonly generateName?: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly generation?: number;
  /** RFC 3339. */
  readonly creationTimestamp?: string;
  /** RFC 3339; set once deletion was asked for and finalizers hold the object back. */
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly OwnerReference[];
}

export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: ObjectMeta;
}

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

/** A condition of the API conventions: `reason` is one CamelCase word, `message` is for people. */
export interface Condition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration?: number;
  /** RFC 3339; moves only when `status` does. */
  readonly lastTransitionTime: string;
}

/** `namespace/name`, or `name` for a cluster-scoped object. */
export function keyOf(object: KubeObject): string {
  const { namespace, name = '' } = object.metadata ?? {};
  return namespace === undefined || namespace === '' ? name : `${namespace}/${name}`;
}

/** `v1` for the core group, otherwise `group/version`. */
export function apiVersionOf({ group, version }: Pick<Resource, 'group' | 'version'>): string {
  return group === '' ? version : `${group}/${version}`;
}

/** The object with the apiVersion and kind of its resource. */
export function withKind<T extends KubeObject>(resource: Resource, object: T): T {
  return { ...object, apiVersion: apiVersionOf(resource), kind: resource.kind };
}

/** `datacenters.infra.example.com`, or `secrets` for the core group: how people and RBAC write a resource. */
export function groupResourceName({ group, resource }: Pick<Resource, 'group' | 'resource'>): string {
  return group === '' ? resource : `${resource}.${group}`;
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

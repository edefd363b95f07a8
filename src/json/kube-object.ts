/** The fields that all objects of the Kubernetes API share, as in JSON. Only the fields that Gatehouse reads are declared. */

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
  /** RFC 3339. Set when deletion was requested and finalizers still block it. */
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

/** A condition in the form of the API conventions: `reason` is one CamelCase word, `message` is for humans. */
export interface Condition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration?: number;
  /** RFC 3339. Changes only when `status` changes. */
  readonly lastTransitionTime: string;
}

export interface GroupResource {
  /** Empty for the core group. */
  readonly group: string;
  /** Plural, lower case, e.g. `datacenters`. */
  readonly resource: string;
}

/** The namespace of a cluster-scoped object is undefined. */
export interface ObjectRef extends GroupResource {
  readonly namespace: string | undefined;
  readonly name: string;
}

export function refOf({ group, resource }: GroupResource, { metadata = {} }: KubeObject): ObjectRef {
  return { group, resource, namespace: metadata.namespace, name: metadata.name ?? '' };
}

/** `namespace/name`, or `name` for a cluster-scoped object. */
export type ObjectKey = string;

export function objectKey(meta: {
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
}): ObjectKey {
  const name = meta.name ?? '';
  return meta.namespace === undefined || meta.namespace === '' ? name : `${meta.namespace}/${name}`;
}

export const keyOf = (object: KubeObject): ObjectKey => objectKey(object.metadata ?? {});

export function groupResourceName({ group, resource }: GroupResource): string {
  return group === '' ? resource : `${resource}.${group}`;
}

/** Splits an `apiVersion`, e.g. `apps/v1`. The group is empty for the core group. */
export function splitApiVersion(apiVersion: string): { readonly group: string; readonly version: string } {
  const slash = apiVersion.indexOf('/');
  return { group: apiVersion.slice(0, Math.max(0, slash)), version: apiVersion.slice(slash + 1) };
}

/** A time in RFC 3339 without fractions of a second, as the API server writes it. */
export const toTimestamp = (time: Date): string => time.toISOString().replace(/\.\d+Z$/, 'Z');

/** @see https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ */

const LABEL = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;
const QUALIFIED_NAME = /^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/;

/** A DNS label (RFC 1123): the name of a namespace, for example. */
export const isDnsLabel = (name: string): boolean => name.length <= 63 && LABEL.test(name);

export const isDnsSubdomain = (name: string): boolean => name.length <= 253 && SUBDOMAIN.test(name);

/** The key of a label or an annotation: an optional DNS prefix, a slash, a name of at most 63 characters. */
export function isQualifiedName(name: string): boolean {
  const slash = name.indexOf('/');
  return slash === -1
    ? isSimpleName(name)
    : isDnsSubdomain(name.slice(0, slash)) && isSimpleName(name.slice(slash + 1));
}

/** The key of a label without its prefix. Keys of audit annotations of a webhook have the same form. */
export const isSimpleName = (name: string): boolean => name.length <= 63 && QUALIFIED_NAME.test(name);

export const isLabelValue = (value: string): boolean => value === '' || isSimpleName(value);

/** Call this before a name becomes part of a URL: a hostile name must not lead to another object. */
export function isObjectName(target: GroupResource, name: string): boolean {
  return allowsOtherNames(target) ? PATH_SEGMENT.test(name) : isDnsSubdomain(name);
}

function allowsOtherNames({ group, resource }: GroupResource): boolean {
  return (
    group === 'rbac.authorization.k8s.io' ||
    (group === 'networking.k8s.io' && resource === 'ipaddresses') ||
    (group === 'certificates.k8s.io' && resource === 'clustertrustbundles')
  );
}

/** All printable ASCII except `/`, `%` and delimiters of a URL; not `.` and `..`. */
const PATH_SEGMENT = /^(?!\.{1,2}$)[A-Za-z0-9:._~!$&'()*+,;=@-]{1,253}$/;

/** The most likely plural of a kind; correct for all kinds of Kubernetes but Endpoints. */
export function guessPlural(kind: string): string {
  const singular = kind.toLowerCase();
  if (/[^aeiou]y$/.test(singular)) return `${singular.slice(0, -1)}ies`;
  return /(s|x|z|ch|sh)$/.test(singular) ? `${singular}es` : `${singular}s`;
}

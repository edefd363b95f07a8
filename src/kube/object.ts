import { type KubeObject, groupResourceName } from '../json/kube-object.ts';

export interface KubeList<T extends KubeObject> {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: {
    readonly resourceVersion?: string;
    readonly continue?: string;
    readonly remainingItemCount?: number;
  };
  readonly items: readonly T[];
}

export interface Resource {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** The singular and short names, as users type them; absent if unknown. */
  readonly aliases?: readonly string[];
}

export interface NamedRef {
  readonly namespace?: string | undefined;
  readonly name: string;
}

export const apiVersionOf = ({ group, version }: Pick<Resource, 'group' | 'version'>): string =>
  group === '' ? version : `${group}/${version}`;

export const withKind = <T extends KubeObject>(resource: Resource, object: T): T => ({
  ...object,
  apiVersion: apiVersionOf(resource),
  kind: resource.kind,
});

/** @throws when a part could change the meaning of the request: `datacenters/..` would LIST the parent */
export function resourcePath(
  resource: Resource,
  { namespace, name }: Partial<NamedRef> = {},
  subresource?: string,
): string {
  const { group, version, namespaced } = resource;
  const what = groupResourceName(resource);
  if (!namespaced && namespace !== undefined)
    throw new Error(`${what} is cluster-scoped: omit the namespace "${namespace}"`);
  if (namespaced && namespace === undefined && name !== undefined)
    throw new Error(`${what} is namespaced: set the namespace of "${name}"`);
  if (subresource !== undefined && name === undefined)
    throw new Error(`${what}/${subresource} needs the name of an object`);
  return [
    group === '' ? '/api' : `/apis/${segment(group)}`,
    segment(version),
    ...(namespace === undefined ? [] : ['namespaces', segment(namespace)]),
    segment(resource.resource),
    ...(name === undefined ? [] : [segment(name)]),
    ...(subresource === undefined ? [] : [segment(subresource)]),
  ].join('/');
}

/** Rejects what Kubernetes rejects in a name that becomes a path segment (apimachinery, api/validation/path). */
function segment(text: string): string {
  if (text === '' || text === '.' || text === '..' || /[/%]/.test(text))
    throw new Error(`"${text}" cannot be part of the path of a Kubernetes object: use the plain name`);
  // A lone surrogate makes encodeURIComponent throw a bare "URI malformed".
  if (!text.isWellFormed()) throw new Error('the name of a Kubernetes object is not valid Unicode');
  return encodeURIComponent(text);
}

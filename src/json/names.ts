import type { GroupResource } from './kube-object.ts';

/** @see https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ */

const LABEL = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;
const QUALIFIED_NAME = /^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/;

/** A DNS label (RFC 1123): the name of a namespace, for example. */
export function isDnsLabel(name: string): boolean {
  return name.length <= 63 && LABEL.test(name);
}

export function isDnsSubdomain(name: string): boolean {
  return name.length <= 253 && SUBDOMAIN.test(name);
}

/** The key of a label or an annotation: an optional DNS prefix, a slash, a name of at most 63 characters. */
export function isQualifiedName(name: string): boolean {
  const slash = name.indexOf('/');
  return slash === -1
    ? isSimpleName(name)
    : isDnsSubdomain(name.slice(0, slash)) && isSimpleName(name.slice(slash + 1));
}

/** The key of a label without its prefix. Keys of audit annotations of a webhook have the same form. */
export function isSimpleName(name: string): boolean {
  return name.length <= 63 && QUALIFIED_NAME.test(name);
}

export function isLabelValue(value: string): boolean {
  return value === '' || isSimpleName(value);
}

/** Call this before a name becomes part of a URL: a hostile name must not lead to another object. */
export function isObjectName(target: GroupResource, name: string): boolean {
  return allowsOtherNames(target) ? isPathSegment(name) : isDnsSubdomain(name);
}

function allowsOtherNames({ group, resource }: GroupResource): boolean {
  return (
    group === 'rbac.authorization.k8s.io' ||
    (group === 'networking.k8s.io' && resource === 'ipaddresses') ||
    (group === 'certificates.k8s.io' && resource === 'clustertrustbundles')
  );
}

/** All printable ASCII except `/`, `%` and delimiters of a URL. */
const PATH_SEGMENT = /^[A-Za-z0-9:._~!$&'()*+,;=@-]{1,253}$/;

function isPathSegment(name: string): boolean {
  return name !== '.' && name !== '..' && PATH_SEGMENT.test(name);
}

import type { RequestInfo, ResourceVerb } from '../../machinery/request.ts';

/** Parts below `/namespaces/<name>/` that are subresources of the Namespace, not resources in it. */
const NAMESPACE_SUBRESOURCES = new Set(['status', 'finalize']);

/**
 * Parses method, path and query by the rules of k8s.io/apiserver/pkg/endpoints/request (requestinfo.go).
 * Authorisation and audit depend on the result.
 */
export function requestInfoOf(method: string, path: string, query: URLSearchParams): RequestInfo {
  const parts = path
    .split('/')
    .filter((part) => part !== '')
    .map(decoded);
  const rest = apiParts(parts);
  if (rest === undefined) return { kind: 'path', verb: method.toLowerCase(), path };
  const { group, version } = rest;
  let { below } = rest;
  let deprecatedWatch = false;
  if (below[0] === 'watch' && below.length > 1) {
    deprecatedWatch = true;
    below = below.slice(1);
  }
  let namespace = '';
  if (below[0] === 'namespaces' && below[1] !== undefined) {
    namespace = below[1];
    if (below[2] !== undefined && !NAMESPACE_SUBRESOURCES.has(below[2])) below = below.slice(2);
    else
      return named({
        group,
        version,
        namespace,
        resource: 'namespaces',
        name: below[1],
        subresource: below[2],
      });
  }
  const [resource = '', name, subresource] = below;
  return named({ group, version, namespace, resource, name, subresource });

  function named(what: {
    readonly group: string;
    readonly version: string;
    readonly namespace: string;
    readonly resource: string;
    readonly name: string | undefined;
    readonly subresource: string | undefined;
  }): RequestInfo {
    const isWatch = deprecatedWatch || isTrue(query.get('watch'));
    const verb = verbOf(method, what.name !== undefined, isWatch);
    if (what.resource === '' || verb === undefined) return { kind: 'path', verb: method.toLowerCase(), path };
    // A collection request with a field selector for one name is authorised for that name.
    const selected = what.name ?? nameInFieldSelector(query.get('fieldSelector'));
    return {
      kind: 'resource',
      verb,
      group: what.group,
      version: what.version,
      resource: what.resource,
      subresource: what.subresource ?? '',
      namespace: what.namespace,
      name: (verb === 'list' || verb === 'watch' ? selected : what.name) ?? '',
      path,
    };
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // invalid percent-encoding: no object has such a name
  }
}

function apiParts(parts: readonly string[]) {
  if (parts[0] === 'api' && parts.length >= 3) {
    return { group: '', version: parts[1] ?? '', below: parts.slice(2) };
  }
  if (parts[0] === 'apis' && parts.length >= 4) {
    return { group: parts[1] ?? '', version: parts[2] ?? '', below: parts.slice(3) };
  }
  return undefined;
}

const isTrue = (value: string | null) => value !== null && value !== 'false' && value !== '0';

function verbOf(method: string, hasName: boolean, isWatch: boolean): ResourceVerb | undefined {
  switch (method) {
    case 'GET':
    case 'HEAD':
      if (isWatch && !hasName) return 'watch';
      return hasName ? 'get' : 'list';
    case 'POST':
      return 'create';
    case 'PUT':
      return 'update';
    case 'PATCH':
      return 'patch';
    case 'DELETE':
      return hasName ? 'delete' : 'deletecollection';
    default:
      return undefined;
  }
}

function nameInFieldSelector(selector: string | null): string | undefined {
  return /(?:^|,)metadata\.name==?([^,]+)/.exec(selector ?? '')?.[1];
}

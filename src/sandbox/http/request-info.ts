import type { RequestInfo, ResourceVerb } from '../../machinery/request.ts';

/** Parts below `/namespaces/<name>/` that are subresources of the Namespace, not resources in it. */
const NAMESPACE_SUBRESOURCES = new Set(['status', 'finalize']);

/** Parses method, path and query by the rules of k8s.io/apiserver/pkg/endpoints/request (requestinfo.go). */
export function requestInfoOf(method: string, path: string, query: URLSearchParams): RequestInfo {
  const parts = path
    .split('/')
    .filter((part) => part !== '')
    .map(decoded);
  const { group, version, below } = apiParts(parts);
  const isWatchPath = below[0] === 'watch' && below.length > 1;
  const { namespace, inNamespace } = namespaceParts(isWatchPath ? below.slice(1) : below);
  const [resource = '', name, subresource = ''] = inNamespace;
  const verb = verbOf(method, name !== undefined, isWatchPath || isTrue(query.get('watch')));
  if (resource === '' || verb === undefined) return { kind: 'path', verb: method.toLowerCase(), path };
  // A collection request with a field selector for one name is authorised for that name.
  const selected = verb === 'list' || verb === 'watch' ? nameInFieldSelector(query.get('fieldSelector')) : '';
  return {
    kind: 'resource',
    verb,
    group,
    version,
    resource,
    subresource,
    namespace,
    name: name ?? selected,
    path,
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // invalid percent-encoding: no object has such a name
  }
}

/** Nothing is `below` the path of a document. */
function apiParts([root, ...rest]: readonly string[]) {
  const [group = '', version = '', ...below] = root === 'api' ? ['', ...rest] : root === 'apis' ? rest : [];
  return { group, version, below };
}

/** The path of a Namespace also sets the namespace. */
function namespaceParts(below: readonly string[]) {
  const [root, namespace, next] = below;
  if (root !== 'namespaces' || namespace === undefined) return { namespace: '', inNamespace: below };
  const isNamespace = next === undefined || NAMESPACE_SUBRESOURCES.has(next);
  return { namespace, inNamespace: isNamespace ? below : below.slice(2) };
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

const nameInFieldSelector = (selector: string | null): string =>
  /(?:^|,)metadata\.name==?([^,]+)/.exec(selector ?? '')?.[1] ?? '';

/** `/api/v1/namespaces/shop/secrets/tls` → `/api/v1/namespaces/{namespace}/secrets/{name}`: of these there are few. */
export function pathTemplate(path: string): string {
  const match = /^(\/api\/[^/]+|\/apis\/[^/]+\/[^/]+)\/(.+)$/.exec(path);
  if (match === null) return path;
  const [, version = '', rest = ''] = match;
  const parts = rest.split('/');
  return [version, ...(isNamespaced(parts) ? ['namespaces', '{namespace}'] : []), ...objectParts(parts)].join(
    '/',
  );
}

/** Namespaces are objects too, and have subresources. */
const isNamespaced = ([first, , third]: readonly string[]): boolean =>
  first === 'namespaces' && third !== undefined && third !== 'status' && third !== 'finalize';

function objectParts(parts: readonly string[]): readonly string[] {
  const [resource = '', name, ...subResource] = isNamespaced(parts) ? parts.slice(2) : parts;
  return name === undefined ? [resource] : [resource, '{name}', ...subResource];
}

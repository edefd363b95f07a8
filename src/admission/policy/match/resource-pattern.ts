// The patterns in `rules[].resources` of a webhook configuration, matched as the API server does (k8s.io/apiserver
// pkg/admission/plugin/webhook/predicates/rules): `servers`, `servers/status`, `servers/*` (the resource and all its
// subresources), `*` (all resources, no subresource), `*/scale`, `*/*`.

const PATTERN = /^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)(\/(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?))?$/;

export function isResourcePattern(text: string): boolean {
  return text.length <= 253 && PATTERN.test(text);
}

export function hasWildcard(pattern: string): boolean {
  return pattern.includes('*');
}

/** A resource or pattern, split at its slash; `subResource` is empty if there is no slash. */
export function splitResource(text: string): { readonly resource: string; readonly subResource: string } {
  const [resource = '', subResource = ''] = text.split('/', 2);
  return { resource, subResource };
}

/** Whether the pattern matches everything that `other`, a resource or a pattern, matches. */
export function covers(pattern: string, other: string): boolean {
  const wide = splitResource(pattern);
  const narrow = splitResource(other);
  return (
    (wide.resource === '*' || wide.resource === narrow.resource) &&
    (wide.subResource === '*' || wide.subResource === narrow.subResource)
  );
}

/** The patterns that can match a resource and subresource: at most four. */
export function patternsFor(resource: string, subResource: string): readonly string[] {
  return subResource === ''
    ? [resource, `${resource}/*`, '*', '*/*']
    : [`${resource}/${subResource}`, `${resource}/*`, `*/${subResource}`, '*/*'];
}

/** Drops patterns that another pattern covers: the API server rejects redundant rules. */
export function withoutCovered(patterns: readonly string[]): readonly string[] {
  const unique = [...new Set(patterns)].sort();
  return unique.filter((pattern) => !unique.some((other) => other !== pattern && covers(other, pattern)));
}

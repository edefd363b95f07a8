import type { Rest } from './rest.ts';

/** The request concerns an object in a namespace that Gatehouse leaves alone, so it was not sent. */
export class OutsideNamespacesError extends Error {
  override readonly name = 'OutsideNamespacesError';

  constructor(namespace: string) {
    super(`namespace ${namespace} is not among --namespaces: Gatehouse neither reads nor writes there`);
  }
}

/** Subresources of Namespaces, which are cluster-scoped. In other groups, these words may be kinds. */
const OF_NAMESPACE = /^\/api\/v1\/namespaces\/[^/?]+\/(?:status|finalize)(?:\?|$)/;

/** The namespace of the object or list in a path: `/api/v1/namespaces/<namespace>/<resource>...`. */
const NAMESPACE = /^\/(?:api|apis\/[^/]+)\/[^/]+\/namespaces\/([^/?]+)\//;

/** The API server requires Events about cluster-scoped objects to be there. */
const EVENTS = /^\/api\/v1\/namespaces\/default\/events\b/;

/** Sends only requests for objects in these namespaces, and for cluster-scoped objects. Others reject with {OutsideNamespacesError}. */
export function confined(rest: Rest, namespaces: readonly string[]): Rest {
  const check = (path: string): void => {
    const namespace = NAMESPACE.exec(path)?.[1];
    if (namespace === undefined || OF_NAMESPACE.test(path) || EVENTS.test(path)) return;
    if (!namespaces.includes(decodeURIComponent(namespace))) throw new OutsideNamespacesError(namespace);
  };
  return {
    request: async (request) => {
      check(request.path);
      return rest.request(request);
    },
    stream: (request) => {
      check(request.path);
      return rest.stream(request);
    },
    impersonate: (who) => confined(rest.impersonate(who), namespaces),
  };
}

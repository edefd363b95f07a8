/** A private lease: every client of this proxy becomes leader, although another replica leads. */
import type { OwnAnswer } from './api-proxy.ts';

const LEASES = /^\/apis\/coordination\.k8s\.io\/v1\/namespaces\/[^/]+\/leases(\/|$)/;

export function ownLease(): OwnAnswer {
  let lease: object | undefined;
  let version = 0;
  return (method, path, body) => {
    if (!LEASES.test(path)) return undefined;
    if (method === 'GET')
      return lease === undefined
        ? { code: 404, body: { kind: 'Status', status: 'Failure', reason: 'NotFound', code: 404 } }
        : { code: 200, body: lease };
    const sent = body as { readonly metadata?: object }; // clients only write Leases to this path
    lease = { ...sent, metadata: { ...sent.metadata, resourceVersion: String((version += 1)) } };
    return { code: method === 'POST' ? 201 : 200, body: lease };
  };
}

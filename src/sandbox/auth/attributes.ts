import { ApiFailure, forbidden } from '../../machinery/failure.ts';
import type { UserInfo } from '../../machinery/request.ts';

/** What a user requests permission for. A RequestInfo is one. */
export type Attributes =
  | {
      readonly kind: 'resource';
      readonly verb: string;
      readonly group: string;
      readonly resource: string;
      readonly subresource: string;
      /** Empty for cluster-scoped resources and for all namespaces. */
      readonly namespace: string;
      /** Empty for collections and creates. */
      readonly name: string;
    }
  | { readonly kind: 'path'; readonly verb: string; readonly path: string };

export type ResourceAttributes = Extract<Attributes, { kind: 'resource' }>;

/**
 * The 403 for a request without permission; `reason` comes from the authoriser and is often empty.
 * @see k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go
 */
export function forbiddenFor(user: UserInfo, attributes: Attributes, reason: string): ApiFailure {
  const message = `${escaped(refusal(user, attributes))}${reason === '' ? '' : `: ${reason}`}`;
  return attributes.kind === 'path'
    ? new ApiFailure(403, 'Forbidden', `forbidden: ${message}`, {})
    : forbidden(attributes, attributes.name, message);
}

function refusal({ username }: UserInfo, attributes: Attributes): string {
  const cannot = `User ${JSON.stringify(username)} cannot ${attributes.verb}`;
  if (attributes.kind === 'path') return `${cannot} path ${JSON.stringify(attributes.path)}`;
  const { group, resource, subresource, namespace } = attributes;
  const combined = subresource === '' ? resource : `${resource}/${subresource}`;
  const scope = namespace === '' ? 'at the cluster scope' : `in the namespace ${JSON.stringify(namespace)}`;
  return `${cannot} resource ${JSON.stringify(combined)} in API group ${JSON.stringify(group)} ${scope}`;
}

/** Escapes user input, so that browsers do not interpret it as markup. */
const escaped = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

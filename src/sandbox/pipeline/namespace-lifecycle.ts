import { ApiFailure, forbidden, notFound } from '../../machinery/failure.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import type { ResourceType } from '../../machinery/resource-type.ts';
import type { Api } from './context.ts';

const NAMESPACES = { group: '', resource: 'namespaces' };
const PROTECTED_NAMESPACES = new Set(['default', 'kube-system', 'kube-public']);

/**
 * The admission plugin NamespaceLifecycle: objects cannot be created in a missing or terminating namespace.
 * @throws ApiFailure 404, or 403 with the cause `NamespaceTerminating`
 */
export function refuseWithoutNamespace(
  { storage }: Pick<Api, 'storage'>,
  type: ResourceType,
  { metadata }: ApiObject,
): void {
  if (!type.namespaced) return;
  const name = metadata.namespace ?? '';
  const namespace = storage.get(NAMESPACES, { namespace: '', name });
  if (namespace === undefined) throw notFound(NAMESPACES, name);
  if (namespace.metadata.deletionTimestamp === undefined) return;
  const message = `unable to create new content in namespace ${name} because it is being terminated`;
  const { status } = forbidden(type, metadata.name ?? '', message);
  throw new ApiFailure(403, 'Forbidden', status.message ?? message, {
    ...status.details,
    causes: [
      {
        reason: 'NamespaceTerminating',
        message: `namespace ${name} is being terminated`,
        field: 'metadata.namespace',
      },
    ],
  });
}

/** @throws ApiFailure 403 for namespaces that a cluster requires */
export function refuseProtectedNamespace(type: ResourceType, name: string): void {
  if (type.group === '' && type.resource === 'namespaces' && PROTECTED_NAMESPACES.has(name)) {
    throw forbidden(NAMESPACES, name, 'this namespace may not be deleted');
  }
}

import { ofJson } from '../../../src/sandbox/machinery/api-object.ts';
import { createStorage } from '../../../src/sandbox/machinery/storage/storage.ts';
import type { Attributes, ResourceAttributes } from '../../../src/sandbox/server/auth/attributes.ts';
import { RBAC_GROUP } from '../../../src/sandbox/server/auth/rbac.ts';

const place = (resource: string) => ({ group: RBAC_GROUP, resource });

export type Rule = Readonly<Record<string, readonly string[]>>;
export type Subject = Readonly<Record<string, string>>;

export const user = (name: string): Subject => ({ kind: 'User', name });
export const group = (name: string): Subject => ({ kind: 'Group', name });

/** A Role, or a ClusterRole if the namespace is empty. */
export const roleObject = (namespace: string, name: string, rules: readonly Rule[], rest: object = {}) =>
  ofJson({
    apiVersion: `${RBAC_GROUP}/v1`,
    kind: namespace === '' ? 'ClusterRole' : 'Role',
    metadata: { name, ...(namespace === '' ? {} : { namespace }) },
    rules,
    ...rest,
  });

/** A RoleBinding, or a ClusterRoleBinding if the namespace is empty. `role` is `ClusterRole/view`. */
export function bindingObject(namespace: string, name: string, role: string, subjects: readonly Subject[]) {
  const [kind = '', roleName = ''] = role.split('/');
  return ofJson({
    apiVersion: `${RBAC_GROUP}/v1`,
    kind: namespace === '' ? 'ClusterRoleBinding' : 'RoleBinding',
    metadata: { name, ...(namespace === '' ? {} : { namespace }) },
    roleRef: { apiGroup: RBAC_GROUP, kind, name: roleName },
    subjects,
  });
}

/** A storage with helpers for roles and bindings. */
export function createRbacStorage() {
  const storage = createStorage();
  return {
    storage,
    role: (namespace: string, name: string, ...rules: readonly Rule[]) =>
      storage.create(place(namespace === '' ? 'clusterroles' : 'roles'), roleObject(namespace, name, rules)),
    bind: (namespace: string, name: string, role: string, ...subjects: readonly Subject[]) =>
      storage.create(
        place(namespace === '' ? 'clusterrolebindings' : 'rolebindings'),
        bindingObject(namespace, name, role, subjects),
      ),
    unbind: (namespace: string, name: string) => {
      const where = place(namespace === '' ? 'clusterrolebindings' : 'rolebindings');
      const version = storage.get(where, { namespace, name })?.metadata.resourceVersion ?? '';
      storage.remove(where, { namespace, name }, version);
    },
  };
}

export const getSecret: ResourceAttributes = {
  kind: 'resource',
  verb: 'get',
  group: '',
  resource: 'secrets',
  subresource: '',
  namespace: 'shop',
  name: 'password',
};

export const getPath = (path: string): Attributes => ({ kind: 'path', verb: 'get', path });

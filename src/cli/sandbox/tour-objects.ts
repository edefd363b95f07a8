import type { Condition, KubeObject } from '../../json/kube-object.ts';
import type { Resource } from '../../kube/object.ts';

const example = { group: 'infra.example.com', version: 'v1' };
export const SERVERS: Resource = { ...example, resource: 'servers', kind: 'Server', namespaced: true };
export const DATACENTERS: Resource = {
  ...example,
  resource: 'datacenters',
  kind: 'Datacenter',
  namespaced: false,
};
export const USERS: Resource = {
  group: 'people.example.com',
  version: 'v1',
  resource: 'users',
  kind: 'User',
  namespaced: false,
};

export interface User extends KubeObject {
  readonly spec: { readonly mail: string };
  readonly status?: { readonly conditions?: readonly Condition[] };
}

export const user = (name: string): User => ({ metadata: { name }, spec: { mail: `${name}@example.com` } });

export interface Server extends KubeObject {
  readonly spec: { readonly datacenter: string; readonly tier?: string };
}

export function server(namespace: string, name: string, datacenter: string, metadata: object = {}): Server {
  return {
    apiVersion: 'infra.example.com/v1',
    kind: 'Server',
    metadata: { namespace, name, ...metadata },
    spec: { datacenter },
  };
}

export function datacenter(name: string): KubeObject {
  return { apiVersion: 'infra.example.com/v1', kind: 'Datacenter', metadata: { name } };
}

export interface SecretObject extends KubeObject {
  readonly type?: string;
  readonly data?: Readonly<Record<string, string>>;
}

export function text(secret: SecretObject, key: string): string {
  return Buffer.from(secret.data?.[key] ?? '', 'base64').toString('utf8');
}

/** The API server dials `localhost:<port>` for it, and verifies `<name>.<namespace>.svc`: the production path. */
export function localService(
  namespace: string,
  name: string,
  port: number,
  annotations: Record<string, string> = {},
): KubeObject {
  const spec = {
    type: 'ExternalName',
    externalName: 'localhost',
    ports: [{ name: 'https', protocol: 'TCP', port }],
  };
  const metadata = { namespace, name, annotations };
  return { apiVersion: 'v1', kind: 'Service', metadata, ...{ spec } };
}

export const clusterAdmin = (name: string, user: string): KubeObject =>
  roleBinding(name, 'cluster-admin', user);

export function roleBinding(name: string, role: string, user: string): KubeObject {
  const apiGroup = 'rbac.authorization.k8s.io';
  const binding = {
    roleRef: { apiGroup, kind: 'ClusterRole', name: role },
    subjects: [{ apiGroup, kind: 'User', name: user }],
  };
  return { apiVersion: `${apiGroup}/v1`, kind: 'ClusterRoleBinding', metadata: { name }, ...binding };
}

/** The objects that the tour of the sandbox creates. */
import type { KubeObject } from '../../json/kube-object.ts';
import type { Resource } from '../../kube/object.ts';

export const SERVERS: Resource = {
  group: 'infra.example.com',
  version: 'v1',
  resource: 'servers',
  kind: 'Server',
  namespaced: true,
};
export const DATACENTERS: Resource = {
  group: 'infra.example.com',
  version: 'v1',
  resource: 'datacenters',
  kind: 'Datacenter',
  namespaced: false,
};
export const ADMISSION_POLICIES: Resource = {
  group: 'gatehouse.dev',
  version: 'v1alpha1',
  resource: 'admissionpolicies',
  kind: 'AdmissionPolicy',
  namespaced: false,
};
export const RESTORE_WINDOWS: Resource = {
  group: 'gatehouse.dev',
  version: 'v1alpha1',
  resource: 'restorewindows',
  kind: 'RestoreWindow',
  namespaced: false,
};

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

/** The text of one key of a Secret. */
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
  const service: KubeObject & { readonly spec: typeof spec } = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace, name, annotations },
    spec,
  };
  return service;
}

export function clusterAdmin(name: string, user: string): KubeObject {
  const binding: KubeObject & { readonly roleRef: object; readonly subjects: readonly object[] } = {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: user }],
  };
  return binding;
}

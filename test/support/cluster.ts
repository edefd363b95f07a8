/** A control plane with the manifests of `deploy/` installed, and clients to inspect it. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';

import { applyManifests, readManifests, withSingleAccount } from '../../src/cli/deploy-manifests.ts';
import { localService } from '../../src/cli/sandbox/tour-objects.ts';
import { mayUser } from '../../src/kube/access.ts';
import { createClient } from '../../src/kube/client.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { loadConnection, type Connection } from '../../src/kube/connection.ts';
import { createDiscovery } from '../../src/kube/discovery.ts';
import type { Impersonation } from '../../src/kube/rest/credentials.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { NamedRef, Resource } from '../../src/kube/object.ts';
import { createRest, type Rest } from '../../src/kube/rest.ts';
import { clusterRoles, customResourceDefinitions, namespaces, services } from '../../src/kube/well-known.ts';
import {
  startControlPlane,
  type ControlPlane,
  type ControlPlaneOptions,
  type User,
} from './control-plane.ts';
import { applyBackstop, refusedByBackstop } from './backstop.ts';
import { stopReplicas } from './gatehouse.ts';
import { grant } from './objects.ts';
import { eventually } from './processes.ts';

const DEPLOY = join(import.meta.dirname, '..', '..', 'deploy');
export { ADMISSION_POLICIES, RESTORE_WINDOWS } from '../../src/runtime/resources.ts';
export { DATACENTERS, localService, SERVERS } from '../../src/cli/sandbox/tour-objects.ts';

export const SYSTEM_NAMESPACE = 'gatehouse-system';

const RBAC = 'rbac.authorization.k8s.io';
export const CLUSTER_ROLE_BINDINGS: Resource = {
  ...clusterRoles,
  resource: 'clusterrolebindings',
  kind: 'ClusterRoleBinding',
};
export const ROLES: Resource = { ...clusterRoles, resource: 'roles', kind: 'Role', namespaced: true };
export const ROLE_BINDINGS: Resource = {
  ...CLUSTER_ROLE_BINDINGS,
  resource: 'rolebindings',
  kind: 'RoleBinding',
  namespaced: true,
};

const PATIENCE_MS = 60_000;

export type Cluster = Awaited<ReturnType<typeof connectCluster>>;

export async function startCluster(options: ControlPlaneOptions = {}): Promise<Cluster> {
  return await connectCluster(await startControlPlane(options));
}

export async function connectCluster(plane: ControlPlane) {
  const connections: Connection[] = [];
  const restFor = async (user: User): Promise<Rest> => {
    const connection = await loadConnection({ kubeconfig: plane.kubeconfig(user) });
    connections.push(connection);
    return createRest({ connection, userAgent: 'gatehouse-test', timeoutMs: PATIENCE_MS });
  };
  const adminRest = await restFor('admin');
  const admin = createClient(adminRest);
  const discovery = createDiscovery(adminRest, systemClock);

  /** Server-side apply. Resolves when the API server authorizes by the roles and bindings among them. */
  const apply = async (...manifests: readonly KubeObject[]) => {
    const write = (...objects: readonly KubeObject[]) =>
      applyManifests({ client: admin, discovery, namespace: SYSTEM_NAMESPACE }, objects);
    await write(...manifests);
    if (manifests.some(({ apiVersion }) => apiVersion === `${RBAC}/v1`))
      await untilAuthorized({ admin, apply: write });
  };
  return {
    plane,
    admin,
    adminRest,
    as: async (user: User) => createClient(await restFor(user)),
    impersonate: (who: Impersonation) => createClient(adminRest.impersonate(who)),
    apply,
    /** Applies every YAML file in a folder of `deploy/`. Bindings also apply to the account of `gatehouse serve`. */
    applyFolder: async (folder: string, only: (manifest: KubeObject) => boolean = () => true) => {
      await apply(...withSingleAccount(readManifests(join(DEPLOY, folder))).filter(only));
    },
    see: async <T extends KubeObject>(
      what: string,
      resource: Resource,
      ref: NamedRef,
      accept: (object: T) => boolean = () => true,
      timeoutMs = PATIENCE_MS,
    ) => {
      let last: T | undefined;
      return await eventually(
        what,
        async () => {
          last = await admin.get<T>(resource, ref);
          return last !== undefined && accept(last) ? last : undefined;
        },
        { timeoutMs },
      ).catch((error: unknown) => {
        throw new Error(`${what}: not seen; last: ${JSON.stringify(last, undefined, 1)}`, { cause: error });
      });
    },
    /**
     * Also stops the replicas of Gatehouse.
     * @throws Error if the backstop refused a write of theirs
     */
    stop: async () => {
      await stopReplicas(plane);
      const refused = refusedByBackstop(plane.auditLog());
      await Promise.all(connections.map((connection) => connection.close()));
      await plane.stop();
      if (refused.length > 0) throw new Error(`the backstop refused Gatehouse:\n${refused.join('\n')}`);
    },
  };
}

/** Waits until the API server authorizes by every role and binding written so far. Events of a kind arrive in order. */
export async function untilAuthorized({ admin, apply }: Pick<Cluster, 'admin' | 'apply'>): Promise<void> {
  const name = `written-last-${randomUUID()}`;
  const user = { username: name, uid: '', groups: [], extra: {} };
  const question = { verb: 'get', group: 'example.com', resource: name };
  const rules = [{ apiGroups: ['example.com'], resources: [name], verbs: ['get'] }];
  const pairs = [
    { roles: clusterRoles, bindings: CLUSTER_ROLE_BINDINGS, namespace: undefined },
    { roles: ROLES, bindings: ROLE_BINDINGS, namespace: 'kube-system' },
  ];
  for (const { roles, bindings, namespace } of pairs) {
    await apply(...grant(name, [name], rules, namespace));
    await eventually(`the API server has seen the last ${bindings.kind}`, () =>
      mayUser(admin, user, { ...question, namespace }),
    );
    await admin.delete(bindings, { name, namespace });
    await admin.delete(roles, { name, namespace });
  }
}

/** A cluster with the CRDs, RBAC and namespace of Gatehouse, whose Service leads to `port` on this machine. */
export async function startClusterFor(port: number, options: ControlPlaneOptions = {}): Promise<Cluster> {
  const cluster = await startCluster({ ...options, contents: 'gatehouse' });
  try {
    if (cluster.plane.contents !== 'gatehouse') await installGatehouse(cluster);
    await cluster.apply(localService(SYSTEM_NAMESPACE, 'gatehouse', port));
    return cluster;
  } catch (error) {
    await cluster.stop();
    throw error;
  }
}

export async function installGatehouse(cluster: Cluster): Promise<void> {
  await cluster.applyFolder('base/crds');
  await cluster.applyFolder('base', ({ kind }) => kind !== 'Deployment' && kind !== 'Service');
  await cluster.applyFolder('components/single', ({ kind }) => kind === 'ServiceAccount');
  await applyBackstop(cluster);
  await established(cluster, 'admissionpolicies.gatehouse.dev');
  await established(cluster, 'conversionpolicies.gatehouse.dev');
  await established(cluster, 'restorewindows.gatehouse.dev');
}

/** Applies the examples. Where no controller aggregates ClusterRoles, binds Gatehouse's read permissions directly. */
export async function applyExamples(cluster: Cluster): Promise<void> {
  await cluster.applyFolder('examples', ({ kind }) => kind !== 'AdmissionPolicy');
  await established(cluster, 'servers.infra.example.com');
  await established(cluster, 'datacenters.infra.example.com');
  await cluster.applyFolder('examples', ({ kind }) => kind === 'AdmissionPolicy');
}

export async function createNamespace(cluster: Cluster, name: string): Promise<string> {
  await cluster.admin.create(namespaces, { metadata: { name } });
  return name;
}

export async function untilGone(
  { admin }: Pick<Cluster, 'admin'>,
  resource: Resource,
  ref: NamedRef,
  timeoutMs = PATIENCE_MS,
): Promise<void> {
  const isGone = async () => (await admin.get(resource, ref)) === undefined;
  await eventually(`${resource.kind} ${ref.name} is gone`, isGone, { timeoutMs });
}

/** Asks Gatehouse for a serving certificate, in the Secret `<name>-tls`. */
export const askForCertificate = (
  { admin }: Pick<Cluster, 'admin'>,
  namespace: string,
  name: string,
  annotations: Readonly<Record<string, string>> = {},
): Promise<KubeObject> => {
  const wish = { 'gatehouse.dev/serving-cert-secret-name': `${name}-tls`, ...annotations };
  return admin.create(services, localService(namespace, name, 443, wish));
};

export async function established(cluster: Cluster, crd: string): Promise<void> {
  await cluster.see<KubeObject & { status?: { conditions?: readonly { type: string; status: string }[] } }>(
    `${crd} is established`,
    customResourceDefinitions,
    { name: crd },
    ({ status }) =>
      status?.conditions?.some(({ type, status: is }) => type === 'Established' && is === 'True') ?? false,
  );
}

export const AUTHORITY = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-authority' };
export const SERVING = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-serving' };
export const BUNDLE = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-cabundle' };
export const LEASE = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse' };

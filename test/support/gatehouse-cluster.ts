/** A cluster with one replica of Gatehouse and the examples in force: the starting point of most tests. */
import { randomUUID } from 'node:crypto';

import type { AdmissionPolicy } from '../../src/api/admission-policy.ts';
import type { RestoreWindow } from '../../src/api/restore-window.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { ApiError } from '../../src/kube/api-error.ts';
import type { Resource } from '../../src/kube/object.ts';
import {
  configMaps,
  secrets,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '../../src/kube/well-known.ts';
import { READS_REVIEWED } from '../../src/runtime/policies/read-records.ts';
import { startBalancer } from './balancer.ts';
import {
  ADMISSION_POLICIES,
  applyExamples,
  createNamespace,
  DATACENTERS,
  RESTORE_WINDOWS,
  SERVERS,
  SERVING,
  startClusterFor,
  SYSTEM_NAMESPACE,
  type Cluster,
} from './cluster.ts';
import type { ControlPlaneOptions } from './control-plane.ts';
import { startReplica, type Replica, type ReplicaOptions } from './gatehouse.ts';
import {
  admissionPolicy,
  condition,
  datacenter,
  isTrue,
  server,
  text,
  type Conditioned,
  type SecretObject,
  type WebhookConfigurationObject,
} from './objects.ts';
import { eventually, freePort } from './processes.ts';
import { createTransport } from './transport.ts';
import type { Endpoint } from './webhook-server.ts';

interface GatehouseOptions extends ControlPlaneOptions, Pick<ReplicaOptions, 'settings' | 'arrangement'> {
  readonly prepare?: (cluster: Cluster) => Promise<unknown>;
}

/** Resolves when the replica `one` is ready. The Service of Gatehouse leads to the port of the replica. */
export async function startGatehouse(given: GatehouseOptions = {}) {
  const { settings = {}, arrangement, prepare, ...options } = given;
  const port = await freePort();
  const cluster = await startClusterFor(port, options);
  await prepare?.(cluster);
  const replica = await startReplica(cluster.plane, { name: 'one', port, settings, arrangement });
  await replica.whenReady();
  await untilReviewed(cluster);
  return { cluster, replica };
}

export async function startBalanced({ own = false }: Pick<GatehouseOptions, 'own'> = {}) {
  const balancer = await startBalancer();
  const cluster = await startClusterFor(balancer.port, { own });
  const stop = async () => {
    await cluster.stop();
    await balancer.stop();
  };
  return { balancer, cluster: { ...cluster, stop } };
}

/** Replicas behind a balancer, like behind the Service of Gatehouse. Resolves when all are ready. */
export async function startReplicas(
  names: readonly string[],
  options: Pick<GatehouseOptions, 'settings' | 'own' | 'arrangement'> = {},
) {
  const { settings = {}, own = false, arrangement } = options;
  const { balancer, cluster } = await startBalanced({ own });
  const replicas = await Promise.all(
    names.map((name) =>
      startReplica(cluster.plane, { name, servicePort: balancer.port, settings, arrangement }),
    ),
  );
  balancer.setBackends(replicas.map(({ port }) => port));
  await Promise.all(replicas.map((replica) => replica.whenReady()));
  return { balancer, cluster, replicas };
}

/** Waits until the API server asks Gatehouse about AdmissionPolicies: an earlier one counts as not reviewed. */
export async function untilReviewed({ admin }: Pick<Cluster, 'admin'>): Promise<void> {
  const target = { apiGroup: '', resource: 'namespaces' };
  const policy = admissionPolicy('reads-namespaces', {
    match: { apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'] },
    validate: { references: [{ name: 'namespace', path: 'data.namespace', target }] },
  });
  await eventually('the API server asks Gatehouse about policies', async () => {
    const { metadata } = await admin.create<KubeObject>(ADMISSION_POLICIES, policy, { dryRun: true });
    return metadata?.annotations?.[READS_REVIEWED] !== undefined;
  });
}

export async function installExamples(cluster: Cluster): Promise<void> {
  await untilReviewed(cluster);
  await applyExamples(cluster);
  await seeInForce(cluster, 'servers');
}

/** Installs the examples, with `fra1` and the namespace `shop`. Resolves when the API server calls the webhook. */
export async function enforceExamples(cluster: Cluster): Promise<void> {
  await installExamples(cluster);
  await cluster.admin.create(DATACENTERS, datacenter('fra1'));
  await createNamespace(cluster, 'shop');
  await untilServersChecked(cluster);
}

export const seeCondition = (
  cluster: Pick<Cluster, 'see'>,
  resource: Resource,
  name: string,
  type: string,
  wanted: string,
): Promise<Conditioned> =>
  cluster.see<Conditioned>(`${type} of ${name} is ${wanted}`, resource, { name }, (object) => {
    const { status, reason } = condition(object, type) ?? {};
    return status === wanted || reason === wanted;
  });

export const seeViolations = (
  cluster: Pick<Cluster, 'see'>,
  name: string,
  accept: (total: number) => boolean,
): Promise<AdmissionPolicy> =>
  cluster.see<AdmissionPolicy>(`the audit of ${name}`, ADMISSION_POLICIES, { name }, ({ status }) =>
    accept(status?.violations?.total ?? 0),
  );

export const seePhase = (
  cluster: Pick<Cluster, 'see'>,
  name: string,
  phase: NonNullable<RestoreWindow['status']>['phase'],
): Promise<RestoreWindow> =>
  cluster.see<RestoreWindow>(
    `${name} is ${phase ?? ''}`,
    RESTORE_WINDOWS,
    { name },
    ({ status }) => status?.phase === phase,
  );

export const webhooksOf = async (
  { admin }: Pick<Cluster, 'admin'>,
  kind: Resource,
): Promise<NonNullable<WebhookConfigurationObject['webhooks']>> =>
  (await admin.get<WebhookConfigurationObject>(kind, { name: 'gatehouse' }))?.webhooks ?? [];

export const untilServersChecked = (cluster: Pick<Cluster, 'admin'>): Promise<true> =>
  untilRefused('a Server without its datacenter', 'spec.datacenter', () =>
    cluster.admin.create(SERVERS, server('shop', 'probe', 'nowhere'), { dryRun: true }),
  );

/** Waits until Gatehouse has installed the policy. The API server learns of that later, through its own watch. */
export const seeInForce = (cluster: Cluster, policy: string): Promise<Conditioned> =>
  cluster.see<Conditioned>(
    `the policy ${policy} in force`,
    ADMISSION_POLICIES,
    { name: policy },
    (object) => isTrue('Ready')(object) && isTrue('WebhooksInstalled')(object),
  );

/** Waits until the API server refuses `attempt`, which leaves nothing behind, with a message that contains `why`. */
export const untilRefused = (what: string, why: string, attempt: () => Promise<unknown>): Promise<true> =>
  eventually(`${what} is refused`, () =>
    attempt().then(
      () => false as const,
      (error: unknown) => {
        if (error instanceof ApiError && error.message.includes(why)) return true as const;
        throw error;
      },
    ),
  );

/** The warnings in the answer to a POST of the object, or else to a DELETE. */
export async function warningsOf({ plane }: Cluster, path: string, object?: KubeObject): Promise<string> {
  const { call, stop } = createTransport(plane.server, plane.ca);
  const headers = { authorization: `Bearer ${plane.token('admin')}`, 'content-type': 'application/json' };
  const method =
    object === undefined ? 'DELETE' : object.metadata?.resourceVersion === undefined ? 'POST' : 'PUT';
  const answer = await call({ method, path, headers, body: object && JSON.stringify(object) });
  await stop();
  return (answer.headers.warning ?? []).join('\n');
}

/** The API server's refusal. @throws Error if the API server does not refuse */
export async function refusal(attempt: Promise<unknown>): Promise<ApiError> {
  try {
    await attempt;
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error('it was not refused');
}

export const outcomeOf = (attempt: Promise<unknown>): Promise<string> =>
  attempt.then(
    () => 'allowed',
    (error: unknown) => {
      if (error instanceof ApiError) return error.message;
      throw error;
    },
  );

/** Waits until the API server enforces every policy written so far: it takes all of them over once a second. */
export async function untilPoliciesEnforced({
  admin,
  apply,
}: Pick<Cluster, 'admin' | 'apply'>): Promise<void> {
  const name = `written-last-${randomUUID()}`; // the API server may still enforce the one of an earlier call
  const native = (kind: string, spec: object): KubeObject & { readonly spec: object } => ({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind,
    metadata: { name },
    spec,
  });
  const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] };
  const validations = [{ expression: `object.metadata.name != '${name}'` }];
  await apply(
    native('ValidatingAdmissionPolicy', { matchConstraints: { resourceRules: [rule] }, validations }),
    native('ValidatingAdmissionPolicyBinding', { policyName: name, validationActions: ['Deny'] }),
  );
  await untilRefused('what the last policy forbids', name, () =>
    admin.create(configMaps, { metadata: { name, namespace: 'default' } }, { dryRun: true }),
  );
  await admin.delete(validatingAdmissionPolicies, { name });
  await admin.delete(validatingAdmissionPolicyBindings, { name });
}

export async function endpointOf({ admin }: Cluster, { port }: Replica): Promise<Endpoint> {
  const serving = await eventually('our Secret', () => admin.get<SecretObject>(secrets, SERVING));
  return { port, ca: text(serving, 'ca.crt'), servername: `gatehouse.${SYSTEM_NAMESPACE}.svc` };
}

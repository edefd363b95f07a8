/** `npm start`: a real control plane, Gatehouse against it, and the whole story, step by step. Stays up until Ctrl-C. */
import { X509Certificate } from 'node:crypto';

import { ApiError } from '../src/kube/api-error.ts';
import type { KubeObject } from '../src/kube/object.ts';
import { secrets, services, validatingWebhookConfigurations } from '../src/kube/well-known.ts';
import {
  ADMISSION_POLICIES,
  applyExamples,
  createNamespace,
  DATACENTERS,
  localService,
  RESTORE_WINDOWS,
  SERVERS,
  startClusterFor,
  type Cluster,
} from '../test/support/cluster.ts';
import { startReplica, type Replica } from '../test/support/gatehouse.ts';
import {
  datacenter,
  isTrue,
  server,
  text,
  type Conditioned,
  type SecretObject,
  type Server,
  type WebhookConfigurationObject,
} from '../test/support/objects.ts';
import { eventually, freePort } from '../test/support/processes.ts';

const VELERO = { user: 'system:serviceaccount:velero:velero', groups: ['system:authenticated'] };

let steps = 0;
function tell(what: string, ...details: readonly string[]): void {
  console.log(`\n${++steps}. ${what}`);
  for (const detail of details) console.log(`   ${detail}`);
}

/** What the API server says when it refuses. */
async function refusalOf(attempt: Promise<unknown>): Promise<string> {
  try {
    await attempt;
  } catch (error) {
    if (error instanceof ApiError) return error.message;
    throw error;
  }
  throw new Error('this should have been refused');
}

async function certificates(cluster: Cluster): Promise<void> {
  await createNamespace(cluster, 'shop');
  await cluster.admin.create(
    services,
    localService('shop', 'api', 443, { 'gatehouse.dev/serving-cert-secret-name': 'api-tls' }),
  );
  const secret = await cluster.see<SecretObject>('the certificate', secrets, {
    namespace: 'shop',
    name: 'api-tls',
  });
  const leaf = new X509Certificate(text(secret, 'tls.crt'));
  tell(
    'The Service shop/api asks for a certificate by annotation, and has it in the Secret shop/api-tls',
    `names: ${leaf.subjectAltName ?? ''}`,
    `valid until ${leaf.validTo}, renewed long before`,
  );

  const configuration: KubeObject & { readonly webhooks: readonly object[] } = {
    metadata: { name: 'shop-api', annotations: { 'gatehouse.dev/inject-cabundle': 'true' } },
    webhooks: [
      {
        name: 'api.shop.example.com',
        clientConfig: { service: { namespace: 'shop', name: 'api', path: '/validate' } },
        failurePolicy: 'Ignore',
        sideEffects: 'None',
        admissionReviewVersions: ['v1'],
      },
    ],
  };
  await cluster.admin.create(validatingWebhookConfigurations, configuration);
  const injected = await cluster.see<WebhookConfigurationObject>(
    'the bundle',
    validatingWebhookConfigurations,
    { name: 'shop-api' },
    ({ webhooks }) => (webhooks?.[0]?.clientConfig.caBundle ?? '') !== '',
  );
  const bundle = injected.webhooks?.[0]?.clientConfig.caBundle ?? '';
  tell(
    'The webhook configuration shop-api asks for the CA bundle, and has it',
    `caBundle: ${bundle.slice(0, 60)}…`,
  );
}

async function admission(cluster: Cluster): Promise<void> {
  await applyExamples(cluster);
  await cluster.see<Conditioned>(
    'the policy',
    ADMISSION_POLICIES,
    { name: 'servers' },
    isTrue('WebhooksInstalled'),
    30_000,
  );
  tell(
    'The policy "servers" is in force: a Server names a Datacenter that exists, and gets a tier if it names none',
  );

  const web = server('shop', 'web', 'fra1');
  const refusal = await eventually('the refusal', () =>
    refusalOf(cluster.admin.create(SERVERS, web, { dryRun: true })),
  );
  tell('The Server shop/web names the Datacenter fra1, which there is not. It is refused:', refusal);

  await cluster.admin.create(DATACENTERS, datacenter('fra1'));
  const created = await cluster.admin.create<Server>(SERVERS, web);
  tell(
    'The Datacenter fra1 is created, and right after it the Server. It is admitted and defaulted:',
    `spec: ${JSON.stringify(created.spec)}`,
  );
}

async function restore(cluster: Cluster): Promise<void> {
  await cluster.apply(clusterAdmin(VELERO.user));
  const velero = cluster.impersonate(VELERO);
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const window: KubeObject & { readonly spec: object } = {
    metadata: { name: 'drill' },
    spec: { principals: [{ user: VELERO.user }], expiresAt, reason: 'a drill' },
  };
  await cluster.admin.create(RESTORE_WINDOWS, window);
  tell('A restore window is opened for Velero', `principal: ${VELERO.user}, until ${expiresAt}`);

  await velero.create(SERVERS, server('shop', 'restored', 'muc1'));
  const refusal = await refusalOf(cluster.admin.create(SERVERS, server('shop', 'sneaky', 'muc1')));
  tell(
    'Velero restores the Server shop/restored before its Datacenter muc1: deferred. Everybody else is still refused:',
    refusal,
  );

  await cluster.admin.patchMerge(RESTORE_WINDOWS, { name: 'drill' }, { spec: { close: true } });
  const report = await cluster.see<
    KubeObject & { readonly status?: { readonly phase?: string; readonly violations?: object } }
  >(
    'the report',
    RESTORE_WINDOWS,
    { name: 'drill' },
    ({ status }) => status?.phase === 'CompletedWithViolations',
    30_000,
  );
  tell(
    'The window is closed, and everything stored is swept. The report:',
    JSON.stringify(report.status?.violations),
  );
}

function clusterAdmin(user: string): KubeObject {
  const binding: KubeObject & { readonly roleRef: object; readonly subjects: readonly object[] } = {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'velero' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: user }],
  };
  return binding;
}

function sayWhatToTry(cluster: Cluster, replica: Replica): void {
  console.log(`
It stays up until Ctrl-C. In another terminal:

   export KUBECONFIG=${cluster.plane.kubeconfig('admin')}
   kubectl get admissionpolicies,restorewindows,servers -A
   kubectl get restorewindow drill -o yaml          # the violation; then let it heal:
   kubectl apply -f - <<< '{"apiVersion":"infra.example.com/v1","kind":"Datacenter","metadata":{"name":"muc1"}}'
   kubectl -n shop patch server web --type merge -p '{"spec":{"datacenter":"muc1"}}'          # refused: immutable

   log of Gatehouse:  ${replica.program.logFile}
   metrics:           http://127.0.0.1:${replica.operationsPort}/metrics`);
}

async function main(): Promise<void> {
  const stopping = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      stopping.abort();
    });

  const port = await freePort();
  console.log('Starting etcd, kube-apiserver and kube-controller-manager …');
  const cluster = await startClusterFor(port, {
    controllers: ['garbagecollector', 'namespace', 'clusterrole-aggregation'],
  });
  try {
    const started = performance.now();
    const replica = await startReplica(cluster.plane, { name: 'gatehouse-0', port });
    try {
      await replica.whenReady(30_000);
      const took = ((performance.now() - started) / 1_000).toFixed(1);
      tell(`Gatehouse is ready after ${took} s, against Kubernetes ${cluster.plane.version.gitVersion}`);
      await certificates(cluster);
      await admission(cluster);
      await restore(cluster);
      sayWhatToTry(cluster, replica);
      await new Promise((resolve) => {
        stopping.signal.addEventListener('abort', resolve, { once: true });
        if (stopping.signal.aborted) resolve(undefined);
      });
      console.log('\nStopping …');
    } finally {
      await replica.program.stop(15_000);
    }
  } finally {
    await cluster.stop();
  }
}

await main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});

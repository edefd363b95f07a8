/** The guided tour: shows the functions of Gatehouse in ten steps, as a user would perform them. */
import { X509Certificate } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import { ApiError } from '../../kube/api-error.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Impersonation } from '../../kube/rest/credentials.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { NamedRef, Resource } from '../../kube/object.ts';
import { namespaces, secrets, services, validatingWebhookConfigurations } from '../../kube/well-known.ts';
import { detailsOf, violationsTable } from '../restore/window-report.ts';
import { readManifests } from '../deploy-manifests.ts';
import { ADMISSION_POLICIES, RESTORE_WINDOWS } from '../../runtime/resources.ts';
import {
  clusterAdmin,
  datacenter,
  DATACENTERS,
  localService,
  server,
  SERVERS,
  text,
  user,
  USERS,
  type SecretObject,
  type Server,
  type User,
} from './tour-objects.ts';

export interface Cluster {
  readonly client: KubeClient;
  readonly impersonate: (who: Impersonation) => KubeClient;
  readonly apply: (manifests: readonly KubeObject[]) => Promise<void>;
  readonly examples: string;
  /** The folder whose controllers Gatehouse runs in the tour; undefined: it runs none. */
  readonly controllers?: string | undefined;
}

type Report = (what: string, ...details: readonly string[]) => void;

const VELERO = { user: 'system:serviceaccount:velero:velero', groups: ['system:authenticated'] };
const TIMEOUT_MS = 30_000;

export async function runTour(cluster: Cluster, say: (text: string) => void): Promise<void> {
  let steps = 0;
  const report: Report = (what, ...details) => {
    say(`\n${++steps}. ${what}`);
    for (const detail of details) say(`   ${detail}`);
  };
  await cluster.client.create(namespaces, { metadata: { name: 'shop' } });
  await restore(cluster, report);
  await admission(cluster, report);
  await certificates(cluster, report);
  if (cluster.controllers !== undefined) await controllers(cluster, report);
}

async function waitFor<T extends KubeObject>(
  { client }: Cluster,
  resource: Resource,
  ref: NamedRef,
  accept: (object: T) => boolean,
): Promise<T> {
  const read = async () => {
    const object = await client.get<T>(resource, ref);
    return object !== undefined && accept(object) ? object : undefined;
  };
  return await poll(read, `${resource.kind} ${ref.name} is not as it should be by now`);
}

/** Calls `attempt` until its result is defined. @throws Error with the message if that takes too long */
async function poll<T>(attempt: () => Promise<T | undefined>, late: string): Promise<T> {
  const deadline = performance.now() + TIMEOUT_MS;
  for (;;) {
    const result = await attempt();
    if (result !== undefined) return result;
    if (performance.now() > deadline) throw new Error(late);
    await sleep(10);
  }
}

async function refusalOf(attempt: Promise<unknown>): Promise<string | undefined> {
  try {
    await attempt;
    return undefined;
  } catch (error) {
    // As kubectl prints it.
    if (error instanceof ApiError)
      return error.message.replace(/^.*?: \d+ (\w+): /, 'Error from server ($1): ');
    throw error;
  }
}

async function restore(cluster: Cluster, report: Report): Promise<void> {
  const { client } = cluster;
  await cluster.apply([...readManifests(cluster.examples), clusterAdmin('velero', VELERO.user)]);
  await waitFor<AdmissionPolicy>(cluster, ADMISSION_POLICIES, { name: 'servers' }, has('WebhooksInstalled'));
  const velero = cluster.impersonate(VELERO);
  const restored = server('shop', 'restored', 'muc1');
  report(
    'A Server must reference an existing Datacenter. Velero restores the Server shop/restored before its Datacenter, so it is lost:',
    await firstRefusal(() => velero.create(SERVERS, restored, { dryRun: true })),
  );

  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const spec = { principals: [{ user: VELERO.user }], expiresAt, reason: 'a drill' };
  await client.create<RestoreWindow>(RESTORE_WINDOWS, { metadata: { name: 'drill' }, spec });
  report('A user opens a restore window for Velero', `principal: ${VELERO.user}, until ${expiresAt}`);

  await poll(
    async () => (await refusalOf(velero.create(SERVERS, restored))) === undefined || undefined,
    'Velero should be allowed to restore by now',
  );
  const refusal = await firstRefusal(() => client.create(SERVERS, server('shop', 'sneaky', 'muc1')));
  report(
    'Velero restores the Server again: Gatehouse defers the check. Other users are still refused:',
    refusal,
  );

  await client.patchMerge(RESTORE_WINDOWS, { name: 'drill' }, { spec: { close: true } });
  const swept = await waitFor<RestoreWindow>(
    cluster,
    RESTORE_WINDOWS,
    { name: 'drill' },
    ({ status }) => status?.phase === 'CompletedWithViolations',
  );
  report(
    'The window closes, and Gatehouse checks every Server. The report lists what is still broken:',
    ...(violationsTable(detailsOf(swept, [])) ?? '').split('\n'),
  );
}

async function certificates(cluster: Cluster, report: Report): Promise<void> {
  const { client } = cluster;
  const annotations = { 'gatehouse.dev/serving-cert-secret-name': 'api-tls' };
  await client.create(services, localService('shop', 'api', 443, annotations));
  const ref = { namespace: 'shop', name: 'api-tls' };
  const secret = await waitFor<SecretObject>(cluster, secrets, ref, () => true);
  const leaf = new X509Certificate(text(secret, 'tls.crt'));
  report(
    'The Service shop/api requests a certificate by annotation; Gatehouse stores it in the Secret shop/api-tls',
    `names: ${leaf.subjectAltName ?? ''}`,
    `valid until ${leaf.validTo}, renewed before that`,
  );
  await client.create(validatingWebhookConfigurations, SHOP_WEBHOOK);
  const injected = await waitFor<typeof SHOP_WEBHOOK>(
    cluster,
    validatingWebhookConfigurations,
    { name: 'shop-api' },
    ({ webhooks }) => bundleOf(webhooks) !== '',
  );
  report(
    'The webhook configuration shop-api requests the CA bundle; Gatehouse injects it',
    `caBundle: ${bundleOf(injected.webhooks).slice(0, 60)}…`,
  );
}

interface Webhook {
  readonly clientConfig: { readonly caBundle?: string };
}

const bundleOf = (webhooks: readonly Webhook[]): string => webhooks[0]?.clientConfig.caBundle ?? '';

const SHOP_WEBHOOK: KubeObject & { readonly webhooks: readonly Webhook[] } = {
  metadata: { name: 'shop-api', annotations: { 'gatehouse.dev/inject-cabundle': 'true' } },
  webhooks: [
    {
      name: 'api.shop.example.com',
      clientConfig: { service: { namespace: 'shop', name: 'api', path: '/validate' } },
      failurePolicy: 'Ignore',
      sideEffects: 'None',
      admissionReviewVersions: ['v1'],
    } as Webhook, // with the other required fields
  ],
};

async function admission(cluster: Cluster, report: Report): Promise<void> {
  const { client } = cluster;
  const web = server('shop', 'web', 'fra1');
  const refusal = await firstRefusal(() => client.create(SERVERS, web, { dryRun: true }));
  report(
    'The Server shop/web references the Datacenter fra1, which does not exist. Gatehouse refuses it:',
    refusal,
  );

  await client.create(DATACENTERS, datacenter('fra1'));
  const created = await client.create<Server>(SERVERS, web);
  report(
    'A user creates the Datacenter fra1, then the Server. Gatehouse admits the Server and sets the default tier:',
    `spec: ${JSON.stringify(created.spec)}`,
  );
}

async function controllers(cluster: Cluster, report: Report): Promise<void> {
  const { client } = cluster;
  await client.create(USERS, user('ada'));
  const ready = await waitFor<User>(cluster, USERS, { name: 'ada' }, has('Ready'));
  const namespace = await waitFor(cluster, namespaces, { name: 'ada' }, () => true);
  const [owner] = namespace.metadata?.ownerReferences ?? [];
  report(
    'A controller of 42 lines gives each User a Namespace, a quota and a RoleBinding. The User ada is ready:',
    `conditions: ${(ready.status?.conditions ?? []).map(({ type, status }) => `${type}=${status}`).join(', ')}`,
    `the Namespace ada belongs to ${owner?.kind ?? ''} ${owner?.name ?? ''}`,
  );
  await client.delete(USERS, { name: 'ada' });
  const isGone = async () => (await client.get(USERS, { name: 'ada' })) === undefined || undefined;
  await poll(isGone, 'the User ada should be gone by now');
  report('The User ada is deleted; its finalizer waited until the Namespace was gone');
}

const has =
  (condition: string) =>
  ({ status }: User | AdmissionPolicy): boolean =>
    status?.conditions?.some(({ type, status: is }) => type === condition && is === 'True') ?? false;

/** The API server learns of new webhook configurations through a watch, so a request may be admitted at first. */
const firstRefusal = (attempt: () => Promise<unknown>): Promise<string> =>
  poll(() => refusalOf(attempt()), 'this should have been refused by now');

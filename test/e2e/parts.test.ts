// suite: shared-plane, sandbox: long
/**
 * Each part can be left out: with the flag, without the roles and the kinds of the part, everything else works, and the API
 * server refuses none of Gatehouse's requests.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { PARTS, type Part } from '../../src/config/parts.ts';
import { customResourceDefinitions, secrets } from '../../src/kube/well-known.ts';
import {
  established,
  RESTORE_WINDOWS,
  SERVERS,
  startCluster,
  SYSTEM_NAMESPACE,
  type Cluster,
  askForCertificate,
} from '../support/cluster.ts';
import type { AuditEvent } from '../support/control-plane.ts';
import { isGatehouse, USERS } from '../support/control-plane-users.ts';
import { convertExamples, databases, defineExamples, failureOf } from '../support/conversion-objects.ts';
import { createDeployed } from '../support/deployed.ts';
import { enforceExamples, refusal, seePhase } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { refusedTo } from '../support/grants.ts';
import { ASKS, KINDS, type Carrier } from '../support/injection-objects.ts';
import { createKubectl, HAS_KUBECTL, type Kubectl } from '../support/kubectl.ts';
import { server, restoreWindow, inShop } from '../support/objects.ts';
import { freePort } from '../support/processes.ts';

/** The roles in deploy/ that only one part needs: a component leaves them out. */
const PART_LABEL = 'gatehouse.dev/part';

/** The kinds of Gatehouse that only one part uses. */
const DEFINITIONS: Readonly<Record<Part, RegExp>> = {
  certificates: /^$/,
  injection: /^$/,
  conversions: /^conversionpolicies\./,
  restores: /^restore/,
};

type Ref = NonNullable<AuditEvent['objectRef']>;

/** Whether only this part makes the request. */
const BELONGS: Readonly<Record<Part, (ref: Ref) => boolean>> = {
  certificates: ({ resource = '', namespace }) =>
    ['endpointslices', 'secrets', 'services'].includes(resource) && namespace !== SYSTEM_NAMESPACE,
  injection: ({ resource = '', namespace }) =>
    ['apiservices', 'clustertrustbundles'].includes(resource) ||
    (resource === 'configmaps' && namespace !== SYSTEM_NAMESPACE),
  conversions: ({ resource = '' }) => resource === 'conversionpolicies',
  restores: ({ resource = '' }) => /^(restore|validatingadmissionpolic)/.test(resource),
};

describe.skipIf(!HAS_KUBECTL).each(PARTS)('without %s', (part) => {
  let cluster: Cluster;
  let kubectl: Kubectl;
  let replica: Replica;
  let port: number;

  beforeAll(async () => {
    port = await freePort();
    cluster = await startCluster();
    kubectl = createKubectl(cluster.plane);
    const deployed = createDeployed(cluster, kubectl, port);
    await deployed.apply('overlays/default', { components: [`without-${part}`] });
    await established(cluster, 'admissionpolicies.gatehouse.dev');
    for (const { kind, metadata } of deployed.manifests())
      if (kind === 'CustomResourceDefinition' && DEFINITIONS[part].test(metadata?.name ?? ''))
        await cluster.admin.delete(customResourceDefinitions, { name: metadata?.name ?? '' });
    expect(deployed.manifests().filter(({ metadata }) => metadata?.labels?.[PART_LABEL] === part)).toEqual(
      [],
    );
    replica = await startReplica(cluster.plane, {
      name: 'one',
      port,
      arrangement: 'both' as const,
      settings: { without: part },
    });
    await replica.whenReady();
  });

  afterAll(async () => {
    kubectl.stop();
    await cluster.stop();
  });

  test('the other parts work', async () => {
    await enforceExamples(cluster);
    await askForCertificate(cluster, 'shop', 'front');
    const { configmap } = KINDS;
    await cluster.admin.create(configmap.resource, configmap.make('trust'));
    if (part !== 'certificates') await cluster.see('the cert', secrets, inShop('front-tls'));
    if (part !== 'injection')
      await cluster.see<Carrier>('the bundle', configmap.resource, configmap.ref('trust'), ({ data }) =>
        (data?.['ca.crt'] ?? '').includes('BEGIN CERTIFICATE'),
      );
    if (part !== 'restores') await openWindow(cluster);
    if (part === 'conversions' || part === 'injection') await defineExamples(cluster, port);
    else await convertExamples(cluster, port);
  });

  test('what the part would do is not done, or refused', async () => {
    switch (part) {
      case 'certificates':
        expect(await cluster.admin.get(secrets, inShop('front-tls'))).toBeUndefined();
        return;
      case 'injection': {
        const { configmap } = KINDS;
        const trust = await cluster.admin.get<Carrier>(configmap.resource, configmap.ref('trust'));
        expect(trust?.metadata?.annotations).toMatchObject(ASKS);
        expect(trust?.data?.['ca.crt']).toBeUndefined();
        return;
      }
      case 'conversions':
        await cluster.see<Carrier>(
          'the bundle of the definition',
          customResourceDefinitions,
          { name: 'databases.infra.example.com' },
          ({ spec }) => spec?.conversion?.webhook?.clientConfig.caBundle !== undefined,
        );
        expect(
          await failureOf(() =>
            cluster.admin.create(databases('v1'), {
              metadata: inShop('orders'),
              spec: { endpoint: 'db:5432' },
            }),
          ),
        ).toContain('Gatehouse runs without conversions (--without conversions)');
        return;
      case 'restores': {
        const denied = await refusal(cluster.admin.create(SERVERS, server('shop', 'one', 'nowhere')));
        expect(denied.message).toContain('spec.datacenter');
      }
    }
  });

  test('the API server refuses nothing, and is not asked about the part', () => {
    const log = cluster.plane.auditLog();
    for (const user of ['gatehouse', 'webhook', 'controllers'] as const)
      expect(refusedTo(log, USERS[user].name)).toEqual([]);
    const asked = log.flatMap(({ user, verb, requestURI, objectRef }) =>
      isGatehouse(user.username) && objectRef !== undefined && BELONGS[part](objectRef)
        ? [`${verb} ${requestURI}`]
        : [],
    );
    expect(asked).toEqual([]);
  });

  test('/readyz does not check the part', async () => {
    const { text } = await replica.readyz();
    expect(text.includes('[+]windows ok')).toBe(part !== 'restores');
    expect(text.includes('[+]conversions ok')).toBe(part !== 'conversions');
  });
});

async function openWindow(cluster: Cluster): Promise<void> {
  await cluster.admin.create(RESTORE_WINDOWS, restoreWindow('drill'));
  await seePhase(cluster, 'drill', 'Open');
}

// suite: shared-plane, sandbox: yes
import { createServer, type Server } from 'node:https';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { configMaps, secrets, services, validatingWebhookConfigurations } from '../../src/kube/well-known.ts';
import { createNamespace, localService, type Cluster } from '../support/cluster.ts';
import { startGatehouse, untilRefused } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { text, type SecretObject, type WebhookConfigurationObject } from '../support/objects.ts';
import { managedBy } from '../support/injection-objects.ts';
import { eventually, freePort } from '../support/processes.ts';

let cluster: Cluster;
let replica: Replica;
let webhook: Server;
const asked: string[] = [];

const WITHIN_MS = 2_000;
const NAME = { name: 'third-party' };

/** A third-party webhook: it denies ConfigMaps that are named `refused`. */
async function startThirdParty(port: number, secret: SecretObject): Promise<Server> {
  const server = createServer(
    { cert: text(secret, 'tls.crt'), key: text(secret, 'tls.key') },
    (request, response) => {
      let body = '';
      request.setEncoding('utf8');
      request.on('data', (chunk: string) => (body += chunk));
      request.on('end', () => {
        const { request: review } = JSON.parse(body) as { request: { uid: string; name: string } };
        asked.push(review.name);
        const answer = {
          uid: review.uid,
          allowed: review.name !== 'refused',
          status: { message: 'third party says no' },
        };
        response.setHeader('content-type', 'application/json');
        response.end(
          JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response: answer }),
        );
      });
    },
  );
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return server;
}

function configuration(port: number): KubeObject {
  const entry = (name: string, path: string) => ({
    name: `${name}.example.com`,
    clientConfig: { service: { namespace: 'shop', name: 'third-party', port, path } },
    rules: [
      { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'], scope: '*' },
    ],
    namespaceSelector: { matchLabels: { watched: 'true' } },
    failurePolicy: 'Fail',
    sideEffects: 'None',
    admissionReviewVersions: ['v1'],
  });
  const object: KubeObject & { readonly webhooks: readonly object[] } = {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingWebhookConfiguration',
    metadata: { name: 'third-party', annotations: { 'gatehouse.dev/inject-cabundle': 'true' } },
    webhooks: [entry('one', '/one'), entry('two', '/two')],
  };
  return object;
}

beforeAll(async () => {
  const theirPort = await freePort();
  ({ cluster, replica } = await startGatehouse());
  await cluster.apply({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: 'shop', labels: { watched: 'true' } },
  });
  await createNamespace(cluster, 'unwatched');
  const wish = { 'gatehouse.dev/serving-cert-secret-name': 'third-party-tls' };
  const service = localService('shop', 'third-party', theirPort, wish);
  await cluster.admin.create(services, service);
  const secret = await cluster.see<SecretObject>('their Secret', secrets, {
    namespace: 'shop',
    name: 'third-party-tls',
  });
  webhook = await startThirdParty(theirPort, secret);
  await cluster.admin.create(validatingWebhookConfigurations, configuration(theirPort), {
    fieldManager: 'their-installer',
  });
});

afterAll(async () => {
  await new Promise((resolve) => webhook.close(resolve));
  await replica.program.stop(15_000);
  await cluster.stop();
});

const hasBundles = ({ webhooks = [] }: WebhookConfigurationObject) =>
  webhooks.length === 2 && webhooks.every(({ clientConfig }) => (clientConfig.caBundle ?? '').length > 100);

const seeInjected = () =>
  cluster.see<WebhookConfigurationObject>(
    'the bundle',
    validatingWebhookConfigurations,
    NAME,
    hasBundles,
    WITHIN_MS,
  );

const configMap = (name: string): KubeObject => ({ metadata: { namespace: 'shop', name } });

test('a webhook configuration of a third party gets the bundle, and the API server then calls the webhook', async () => {
  await seeInjected();
  // The API server learns of the bundle through its own watch.
  await untilRefused('a ConfigMap', 'third party says no', () =>
    cluster.admin.create(configMaps, configMap('refused'), { dryRun: true }),
  );
  await expect(cluster.admin.create(configMaps, configMap('refused'))).rejects.toThrow(/third party says no/);
  await cluster.admin.create(configMaps, configMap('welcome'));
  expect(asked).toContain('refused');
  expect(asked).toContain('welcome');
});

test('a removed bundle is restored within 2 s, and nothing else in the object changes', async () => {
  const wiped = ({ webhooks = [], ...rest }: WebhookConfigurationObject) => ({
    ...rest,
    webhooks: webhooks.map(({ clientConfig, ...entry }) => {
      return { ...entry, clientConfig: { service: clientConfig.service } };
    }),
  });
  // An installer tries again after a conflict.
  const before = await eventually('their installer removes the bundle', async () => {
    const seen = await seeInjected();
    await cluster.admin.replace(validatingWebhookConfigurations, wiped(seen), {
      fieldManager: 'their-installer',
    });
    return seen;
  });
  const started = performance.now();
  const after = await seeInjected();
  console.log(`injected again after ${Math.round(performance.now() - started)} ms`);

  expect(after.webhooks).toEqual(before.webhooks);
  expect(after.metadata?.annotations).toEqual(before.metadata?.annotations);
  // The API server learns of the bundle through its own watch.
  await eventually('the API server calls the webhook again', () =>
    cluster.admin.create(configMaps, configMap('welcome-again')),
  );
});

test('managedFields show that Gatehouse owns no field, so that no apply of others conflicts with it', async () => {
  await expect.poll(async () => managedBy(await seeInjected(), 'gatehouse-cabundle')).toEqual([]);
});

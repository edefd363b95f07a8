// suite: shared-plane, sandbox: yes
import { createServer, type Server } from 'node:https';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { configMaps, secrets, services, validatingWebhookConfigurations } from '../../src/kube/well-known.ts';
import { createNamespace, localService, type Cluster } from '../support/cluster.ts';
import { startGatehouse, untilRefused } from '../support/gatehouse-cluster.ts';
import { configMap, inShop, text, type SecretObject } from '../support/objects.ts';
import { freePort } from '../support/processes.ts';

let cluster: Cluster;
let port: number;
let webhook: Server;
const asked: string[] = [];

beforeAll(async () => {
  port = await freePort();
  ({ cluster } = await startGatehouse());
  await createNamespace(cluster, 'shop');
  const wish = { 'gatehouse.dev/serving-cert-secret-name': 'third-party-tls' };
  await cluster.admin.create(services, localService('shop', 'third-party', port, wish));
  const secret = await cluster.see<SecretObject>('their Secret', secrets, inShop('third-party-tls'));
  webhook = await startThirdParty(secret);
});

afterAll(async () => {
  await new Promise((resolve) => webhook.close(resolve));
  await cluster.stop();
});

/** A third-party webhook: it denies ConfigMaps that are named `refused`. */
async function startThirdParty(secret: SecretObject): Promise<Server> {
  const pair = { cert: text(secret, 'tls.crt'), key: text(secret, 'tls.key') };
  const server = createServer(pair, (request, response) => {
    void json(request).then((body) => {
      const { uid, name } = (body as { request: { uid: string; name: string } }).request; // an AdmissionReview
      asked.push(name);
      const verdict = { uid, allowed: name !== 'refused', status: { message: 'third party says no' } };
      const review = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response: verdict };
      response.setHeader('content-type', 'application/json').end(JSON.stringify(review));
    });
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return server;
}

test('a webhook configuration of a third party gets the bundle, and the API server then calls the webhook', async () => {
  const configuration: KubeObject & { readonly webhooks: readonly object[] } = {
    metadata: { name: 'third-party', annotations: { 'gatehouse.dev/inject-cabundle': 'true' } },
    webhooks: [
      {
        name: 'one.example.com',
        clientConfig: { service: { namespace: 'shop', name: 'third-party', port, path: '/one' } },
        rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] }],
        objectSelector: { matchLabels: { watched: 'true' } },
        sideEffects: 'None',
        admissionReviewVersions: ['v1'],
      },
    ],
  };
  await cluster.admin.create(validatingWebhookConfigurations, configuration);
  const create = (name: string) =>
    cluster.admin.create(configMaps, configMap(name, {}, { labels: { watched: 'true' } }));
  // The API server learns of the bundle through its own watch.
  await untilRefused('a ConfigMap', 'third party says no', () => create('refused'));
  await create('welcome');
  expect(asked).toEqual(expect.arrayContaining(['refused', 'welcome']));
});

/** A slow third-party webhook: the API server stores an object long after the others have allowed it. */
import { createServer } from 'node:https';
import { json } from 'node:stream/consumers';

import { createSandboxTls } from '../../src/cli/sandbox/api.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { isJsonObject } from '../../src/json/json.ts';
import { validatingWebhookConfigurations } from '../../src/kube/well-known.ts';
import { entry, type Carrier } from './injection-objects.ts';
import { listen } from './tls.ts';

/** The API server calls it for creates of Applications with the label `slow`. */
export async function startSlowWebhook(client: KubeClient) {
  const { ca, cert, key } = await createSandboxTls(new Date());
  const asked = Promise.withResolvers<undefined>();
  const released = Promise.withResolvers<undefined>();
  const server = createServer({ cert, key }, (request, response) => {
    void (async () => {
      const review = await json(request);
      asked.resolve(undefined);
      await released.promise;
      const uid = isJsonObject(review) && isJsonObject(review.request) ? review.request.uid : undefined;
      response.setHeader('content-type', 'application/json');
      const answer = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview' };
      response.end(JSON.stringify({ ...answer, response: { uid, allowed: true } }));
    })();
  });
  const port = await listen(server);
  await client.create(validatingWebhookConfigurations, configuration(port, ca));
  return {
    asked: asked.promise,
    release: () => released.resolve(undefined),
    stop: async () => {
      await client.delete(validatingWebhookConfigurations, { name: 'slow' });
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const configuration = (port: number, ca: string): Carrier => ({
  metadata: { name: 'slow' },
  webhooks: [
    {
      ...entry('slow.example.com', {
        url: `https://localhost:${port}/`,
        caBundle: Buffer.from(ca).toString('base64'),
      }),
      ...{
        rules: [CREATES],
        objectSelector: { matchExpressions: [{ key: 'slow', operator: 'Exists' }] },
        timeoutSeconds: 30,
        failurePolicy: 'Fail',
      },
    },
  ],
});
const CREATES = {
  apiGroups: ['restore.example.com'],
  apiVersions: ['v1'],
  resources: ['applications'],
  operations: ['CREATE'],
};

/** A slow third-party webhook: the API server stores an object long after the others have allowed it. */
import type { KubeClient } from '../../src/kube/client.ts';
import { parseJson, textIn } from '../../src/json/json.ts';
import { validatingWebhookConfigurations } from '../../src/kube/well-known.ts';
import { entry, type Carrier } from './injection-objects.ts';
import { startJsonServer } from './json-server.ts';

/** The API server calls it for creates of Applications with the label `slow`. */
export async function startSlowWebhook(client: KubeClient) {
  const asked = Promise.withResolvers<undefined>();
  const released = Promise.withResolvers<undefined>();
  const server = await startJsonServer('localhost', async (body) => {
    asked.resolve(undefined);
    await released.promise;
    const response = { uid: textIn(parseJson(body), 'request', 'uid'), allowed: true };
    return { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response };
  });
  await client.create(validatingWebhookConfigurations, configuration(server));
  return {
    asked: asked.promise,
    release: () => released.resolve(undefined),
    stop: async () => {
      await client.delete(validatingWebhookConfigurations, { name: 'slow' });
      await server.stop();
    },
  };
}

const configuration = ({ port, caBundle }: { port: number; caBundle: string }): Carrier => ({
  metadata: { name: 'slow' },
  webhooks: [
    {
      ...entry('slow.example.com', { url: `https://localhost:${port}/`, caBundle }),
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

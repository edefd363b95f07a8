/** A validating webhook that records the writes of one user, as the API server describes them, and can refuse them. */
import { createServer } from 'node:https';
import { json } from 'node:stream/consumers';

import { createSandboxTls } from '../../src/cli/sandbox/tls.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { validatingWebhookConfigurations } from '../../src/kube/well-known.ts';
import type { BackupObject } from './velero-objects.ts';
import { listen } from './tls.ts';

export interface SeenWrite {
  readonly operation: 'CREATE' | 'UPDATE';
  /** With a subresource: `applications/status`. */
  readonly resource: string;
  readonly name: string;
  readonly object: BackupObject;
  readonly oldObject: BackupObject | null;
}

export interface Refusal {
  readonly code: number;
  readonly message: string;
  readonly details?: { readonly retryAfterSeconds: number };
}

export interface RecordingWebhook {
  readonly writes: readonly SeenWrite[];
  /** Replaces the answer. Undefined: allowed. */
  readonly refuse: (answer: (write: SeenWrite) => Refusal | undefined) => void;
  /** Forgets the writes, and allows all again. */
  readonly reset: () => void;
  readonly stop: () => Promise<void>;
}

interface Review {
  readonly request: {
    readonly uid: string;
    readonly operation: SeenWrite['operation'];
    readonly resource: { readonly resource: string };
    readonly subResource?: string;
    readonly name?: string;
    readonly userInfo: { readonly username: string };
    readonly object: BackupObject;
    readonly oldObject: BackupObject | null;
  };
}

export async function startRecordingWebhook(client: KubeClient, user: string): Promise<RecordingWebhook> {
  const { ca, cert, key } = await createSandboxTls(new Date());
  const writes: SeenWrite[] = [];
  let answer: (write: SeenWrite) => Refusal | undefined = () => undefined;
  const server = createServer({ cert, key }, (request, response) => {
    void (async () => {
      const { request: seen } = (await json(request)) as Review; // the API server sends nothing else
      const { uid, operation, resource, subResource, userInfo, object, oldObject } = seen;
      const write: SeenWrite = {
        operation,
        resource: subResource === undefined ? resource.resource : `${resource.resource}/${subResource}`,
        name: seen.name ?? object.metadata.name,
        object,
        oldObject,
      };
      const status = userInfo.username === user ? answer(write) : undefined;
      if (userInfo.username === user) writes.push(write);
      response.setHeader('content-type', 'application/json');
      response.end(
        JSON.stringify({
          apiVersion: 'admission.k8s.io/v1',
          kind: 'AdmissionReview',
          response: { uid, allowed: status === undefined, ...(status === undefined ? {} : { status }) },
        }),
      );
    })();
  });
  const port = await listen(server);
  await client.create(validatingWebhookConfigurations, configuration(port, ca));
  return {
    writes,
    refuse: (given) => {
      answer = given;
    },
    reset: () => {
      writes.length = 0;
      answer = () => undefined;
    },
    stop: async () => {
      await client.delete(validatingWebhookConfigurations, { name: 'recorder' });
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const configuration = (port: number, ca: string): KubeObject & { readonly webhooks: readonly object[] } => ({
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'ValidatingWebhookConfiguration',
  metadata: { name: 'recorder' },
  webhooks: [
    {
      name: 'recorder.example.com',
      clientConfig: { url: `https://localhost:${port}/`, caBundle: Buffer.from(ca).toString('base64') },
      rules: [{ apiGroups: ['*'], apiVersions: ['*'], resources: ['*/*'], operations: ['CREATE', 'UPDATE'] }],
      sideEffects: 'None',
      timeoutSeconds: 5,
      failurePolicy: 'Ignore',
      admissionReviewVersions: ['v1'],
    },
  ],
});

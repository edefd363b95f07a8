import { createServer } from 'node:https';
import { text } from 'node:stream/consumers';

import type { SandboxTls } from '../../src/cli/sandbox/tls.ts';

export interface Webhook {
  readonly url: string;
  /** The number of requests so far. */
  readonly asked: () => number;
  readonly stop: () => void;
}

/** Starts a validating webhook that allows every request. */
export async function startWebhook({ cert, key }: SandboxTls): Promise<Webhook> {
  let asked = 0;
  const server = createServer({ cert, key }, (request, response) => {
    asked += 1;
    void text(request).then((body) => {
      const review = JSON.parse(body) as { apiVersion: string; request: { uid: string } }; // the sandbox sends it
      const { apiVersion, request: question } = review;
      response.setHeader('content-type', 'application/json');
      response.end(
        JSON.stringify({
          apiVersion,
          kind: 'AdmissionReview',
          response: { uid: question.uid, allowed: true },
        }),
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the webhook has no port');
  return {
    url: `https://localhost:${address.port}/`,
    asked: () => asked,
    stop: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

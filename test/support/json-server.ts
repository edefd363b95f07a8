/** An HTTPS server that answers JSON with JSON, as webhooks do. */
import type { IncomingMessage } from 'node:http';
import { createServer } from 'node:https';
import { text } from 'node:stream/consumers';

import { stringifyJson, textIn, valueIn } from '../../src/json/json.ts';
import { caBundle } from '../../src/pki/authority/authority.ts';
import { base64, firstAuthority, serverOf } from './pki/fixtures.ts';
import { listen } from './tls.ts';

export async function startJsonServer(
  dnsName: string,
  answerTo: (body: string, request: IncomingMessage) => unknown,
) {
  const now = new Date();
  const authority = await firstAuthority(now);
  const { chain, keyPair } = await serverOf(authority, now, undefined, dnsName);
  const server = createServer({ cert: chain, key: keyPair.privateKey }, (request, response) => {
    void (async () => {
      const answer = await answerTo(await text(request), request);
      response.statusCode = Number(textIn(answer, 'kind') === 'Status' ? valueIn(answer, 'code') : 200);
      response.setHeader('content-type', 'application/json');
      response.end(stringifyJson(answer));
    })();
  });
  return {
    port: await listen(server),
    caBundle: base64(caBundle(authority, now)),
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

import { createServer } from 'node:https';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, expect, test } from 'vitest';

import { firstAuthority, serverOf } from '../../test/support/pki/fixtures.ts';
import { caBundle } from '../pki/authority/authority.ts';
import { createStorage } from '../machinery/storage/storage.ts';
import { createWebhookCaller } from './webhook-caller.ts';
import type { ClientConfig } from '../machinery/webhooks/hook.ts';

const now = new Date();
const authority = await firstAuthority(now);
const ca = caBundle(authority, now);
const { chain, keyPair } = await serverOf(authority, now, 'ECDSA-P256', 'localhost');
const caller = createWebhookCaller(createStorage());

let respond: (response: ServerResponse, body: string) => void;
const server = createServer({ cert: chain, key: keyPair.privateKey }, (request, response) => {
  void text(request).then((body) => respond(response, body));
});
await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
const { port } = server.address() as AddressInfo; // it listens on a TCP port
afterAll(() => {
  caller.close();
  server.closeAllConnections();
  server.close();
});

const answering =
  (status: number, body: string): typeof respond =>
  (response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(body);
  };

const byUrl: ClientConfig = { url: `https://localhost:${port}/hook`, ca };
const call = (client: ClientConfig) =>
  caller.call(client, { kind: 'AdmissionReview' }, 10_000, 'kube-apiserver-admission');

test('a certificate from an untrusted CA is rejected', async () => {
  respond = answering(200, '{}');
  await expect(call({ ...byUrl, ca: caBundle(await firstAuthority(now), now) })).rejects.toThrow(
    `Post "https://localhost:${port}/hook?timeout=10s": tls: failed to verify certificate: x509: certificate signed by unknown authority`,
  );
});

test.each([
  [200, 'garbage', "couldn't get version/kind; json parse error: "],
  [200, '', '0-length response with status code: 200 and content type: application/json'],
  [302, '', 'the server responded with the status code 302 but did not return more information'],
  [500, '{}', 'an error on the server ("unknown") has prevented the request from succeeding'],
  [500, '{"kind":"Status","status":"Failure","message":"out of paper"}', 'out of paper'],
])('an answer with status %i and body %j is a failure', async (status, body, message) => {
  respond = answering(status, body);
  await expect(call(byUrl)).rejects.toThrow(message);
});

test.each([429, 500, 503])('after a %i with Retry-After the webhook is called again', async (code) => {
  const bodies: string[] = [];
  respond = (response, body) => {
    bodies.push(body);
    response.writeHead(bodies.length < 3 ? code : 200, { 'retry-after': '0' }).end('{}');
  };
  expect(await call(byUrl)).toEqual({});
  expect(bodies).toEqual(Array.from({ length: 3 }, () => '{"kind":"AdmissionReview"}'));
});

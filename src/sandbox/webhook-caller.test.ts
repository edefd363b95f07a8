import { createServer } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, expect, test } from 'vitest';

import { firstAuthority } from '../../test/support/pki/fixtures.ts';
import { caBundle } from '../pki/authority/authority.ts';
import { issueServingCert } from '../pki/serving-certs/issue.ts';
import { generateKeyPair, randomSerial } from '../pki/x509/keys.ts';
import { ofJson } from '../machinery/api-object.ts';
import { createStorage } from '../machinery/storage/storage.ts';
import { createWebhookCaller } from './webhook-caller.ts';
import type { ClientConfig } from '../machinery/webhooks/hook.ts';

const SERVICE_NAME = 'hooks.shop.svc';
const now = new Date();
const authority = await firstAuthority(now);
const ca = caBundle(authority, now);
const keyPair = await generateKeyPair('ECDSA-P256');
const { chain } = await issueServingCert({
  authority,
  dnsNames: [SERVICE_NAME, 'localhost'],
  keyPair,
  serial: randomSerial(),
  now,
  lifetimeMs: 3_600_000,
});

const storage = createStorage();
storage.create(
  { group: '', resource: 'services' },
  ofJson({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'hooks', namespace: 'shop' },
    spec: { type: 'ExternalName', externalName: 'localhost' },
  }),
);
const caller = createWebhookCaller(storage);

let respond: (request: IncomingMessage, response: ServerResponse, body: string) => void;
const server = createServer({ cert: chain, key: keyPair.privateKey }, (request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    respond(request, response, Buffer.concat(chunks).toString());
  });
});
await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
const { port } = server.address() as AddressInfo; // it listens on a TCP port
afterAll(() => {
  caller.close();
  server.closeAllConnections();
  server.close();
});

const answering =
  (status: number, text: string): typeof respond =>
  (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(text);
  };

const byUrl: ClientConfig = { url: `https://localhost:${port}/hook`, ca };
const call = (client: ClientConfig) =>
  caller.call(client, { kind: 'AdmissionReview' }, 10_000, 'kube-apiserver-admission');

test('a webhook is reached through its Service, with the Service name as TLS server name', async () => {
  const seen: unknown[] = [];
  respond = ({ method, url, headers }, response, body) => {
    const { host, accept } = headers;
    seen.push({
      method,
      url,
      host,
      agent: headers['user-agent'],
      type: headers['content-type'],
      accept,
      body,
    });
    response.end('{"answer":9007199254740993}');
  };
  expect(await call({ service: { namespace: 'shop', name: 'hooks', path: '/hook', port }, ca })).toEqual({
    answer: 9007199254740993n,
  });
  expect(seen).toEqual([
    {
      method: 'POST',
      url: '/hook?timeout=10s',
      host: `${SERVICE_NAME}:${port}`,
      agent: 'kube-apiserver-admission',
      type: 'application/json',
      accept: 'application/json, */*',
      body: '{"kind":"AdmissionReview"}',
    },
  ]);
});

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
])('an answer with status %i and body %j is a failure', async (status, text, message) => {
  respond = answering(status, text);
  await expect(call(byUrl)).rejects.toThrow(message);
});

test.each([429, 500, 503])('after a %i with Retry-After the webhook is called again', async (code) => {
  const bodies: string[] = [];
  respond = (_request, response, body) => {
    bodies.push(body);
    response.writeHead(bodies.length < 3 ? code : 200, { 'retry-after': '0' }).end('{}');
  };
  expect(await call(byUrl)).toEqual({});
  expect(bodies).toEqual(Array.from({ length: 3 }, () => '{"kind":"AdmissionReview"}'));
});

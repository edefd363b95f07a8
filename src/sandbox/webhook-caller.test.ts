import { createServer, type Server } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';

import { firstAuthority } from '../../test/support/pki/fixtures.ts';
import { caBundle } from '../pki/authority/authority.ts';
import { issueServingCert } from '../pki/serving-certs/issue.ts';
import { generateKeyPair, randomSerial } from '../pki/x509/keys.ts';
import { ofJson } from '../machinery/api-object.ts';
import { createStorage } from '../machinery/storage/storage.ts';
import { createWebhookCaller } from './webhook-caller.ts';
import type { ClientConfig } from '../machinery/webhooks/hook.ts';

const SERVICE_NAME = 'hooks.shop.svc';
const PATIENCE_MS = 10_000;

let server: Server;
let port: number;
let ca: string;
let foreignCa: string;
let respond: (request: IncomingMessage, response: ServerResponse, body: string) => void;
let caller: ReturnType<typeof createWebhookCaller>;

const storage = createStorage();
const service = (name: string, spec: object) => {
  const object = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'shop' },
    spec: { ...spec },
  };
  storage.create({ group: '', resource: 'services' }, ofJson(object));
};
service('hooks', { type: 'ExternalName', externalName: 'localhost' });
service('other', { type: 'ExternalName', externalName: 'localhost' });
service('inside', { type: 'ClusterIP', clusterIP: '10.0.0.7' });

beforeAll(async () => {
  const now = new Date();
  const authority = await firstAuthority(now);
  const keyPair = await generateKeyPair('ECDSA-P256');
  const dnsNames = [SERVICE_NAME, 'localhost'];
  const order = { authority, dnsNames, keyPair, serial: randomSerial(), now, lifetimeMs: 3_600_000 };
  ca = caBundle(authority, now);
  foreignCa = caBundle(await firstAuthority(now), now);
  server = createServer(
    { cert: (await issueServingCert(order)).chain, key: keyPair.privateKey },
    (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        respond(request, response, Buffer.concat(chunks).toString());
      });
    },
  );
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
  ({ port } = server.address() as AddressInfo); // it listens on a TCP port
  caller = createWebhookCaller(storage);
});

afterEach(() => {
  respond = () => undefined;
});

afterAll(async () => {
  caller.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const answering =
  (status: number, text: string, type = 'application/json'): typeof respond =>
  (_request, response) => {
    response.writeHead(status, { 'content-type': type }).end(text);
  };

const byService = (
  name: string,
  change: Partial<NonNullable<ClientConfig['service']>> = {},
): ClientConfig => ({
  service: { namespace: 'shop', name, path: '/hook', port, ...change },
  ca,
});
const byUrl = (path = '/hook'): ClientConfig => ({ url: `https://localhost:${port}${path}`, ca });

const call = (client: ClientConfig, timeoutMs = PATIENCE_MS) =>
  caller.call(client, { kind: 'AdmissionReview' }, timeoutMs, 'kube-apiserver-admission');

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
  expect(await call(byService('hooks'))).toEqual({ answer: 9007199254740993n });
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

test('a connection is reused, and replaced after the webhook closed it', async () => {
  const connections = new Set<unknown>();
  respond = ({ socket }, response) => {
    connections.add(socket);
    response.end('{}');
  };
  await call(byUrl());
  await call(byUrl());
  const used = connections.size;
  server.closeAllConnections();
  await call(byUrl());
  // An earlier test may have left one connection open.
  expect(used).toBe(1);
  expect(connections.size).toBe(2);
});

const shown = (path: string, host = 'localhost', at = port) =>
  `Post "https://${host}:${at}${path}?timeout=10s": `;

test('a certificate from an untrusted CA is rejected', async () => {
  respond = answering(200, '{}');
  await expect(call({ ...byUrl(), ca: foreignCa })).rejects.toThrow(
    `${shown('/hook')}tls: failed to verify certificate: x509: certificate signed by unknown authority`,
  );
});

test('a missing Service, or a Service backed by pods, cannot be called', async () => {
  await expect(call(byService('missing'))).rejects.toThrow(
    `${shown('/hook', 'missing.shop.svc')}service "missing" not found`,
  );
  await expect(call(byService('inside'))).rejects.toThrow('the sandbox runs no pods');
});

test('a webhook that does not answer in time is abandoned', async () => {
  respond = () => undefined;
  await expect(call(byUrl(), 50)).rejects.toThrow('context deadline exceeded');
});

test.each([
  [200, 'garbage', "couldn't get version/kind; json parse error: "],
  [200, '', '0-length response with status code: 200 and content type: application/json'],
  [302, '', 'the server responded with the status code 302 but did not return more information'],
  [404, '{}', 'the server could not find the requested resource'],
  [500, '{}', 'an error on the server ("unknown") has prevented the request from succeeding'],
  [503, 'x', 'the server is currently unable to handle the request'],
  [500, '{"kind":"Status","status":"Failure","message":"out of paper"}', 'out of paper'],
])('an answer with status %i and body %j is a failure', async (status, text, message) => {
  respond = answering(status, text);
  await expect(call(byUrl())).rejects.toThrow(message);
});

/** Answers with these codes in turn, repeating the last one; with a Retry-After in seconds if given. */
function answeringInTurn(codes: readonly number[], retryAfter?: string): readonly string[] {
  const bodies: string[] = [];
  respond = (_request, response, body) => {
    const code = codes[bodies.length] ?? codes.at(-1) ?? 500;
    bodies.push(body);
    response.writeHead(code, retryAfter === undefined ? {} : { 'retry-after': retryAfter }).end('{}');
  };
  return bodies;
}

test.each([429, 500, 503])('after a %i with Retry-After the webhook is called again', async (code) => {
  const bodies = answeringInTurn([code, code, 200], '0');
  expect(await call(byUrl())).toEqual({});
  expect(bodies).toEqual(Array.from({ length: 3 }, () => '{"kind":"AdmissionReview"}'));
});

test('a Retry-After beyond the timeout ends in the timeout', async () => {
  const bodies = answeringInTurn([503, 200], '60');
  await expect(call(byUrl(), 100)).rejects.toThrow('context deadline exceeded');
  expect(bodies).toHaveLength(1);
});

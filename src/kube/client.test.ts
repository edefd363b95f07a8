import { expect, test } from 'vitest';
import { isGone, ListExpiredError } from './api-error.ts';
import { createClient, guardedJsonPatch } from './client.ts';
import {
  sendJson,
  startServer,
  status,
  type FakeServer,
  type Handler,
} from '../../test/support/kube/fake-api-server.ts';
import { fenced } from './lease/fence.ts';
import type { KubeObject } from '../json/kube-object.ts';
import { mutatingWebhookConfigurations, secrets } from './well-known.ts';

interface Secret extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

const ref = { namespace: 'prod', name: 'db' };
const secret: Secret = { metadata: { ...ref, resourceVersion: '7' }, data: { a: 'Yg==' } };

const echo: Handler = ({ body }, response) => {
  sendJson(response, body === '' ? secret : JSON.parse(body));
};

const sent = (server: FakeServer, n = 0) => {
  const { method, url, body, headers } = server.requests[n] ?? { method: '', url: '', body: '', headers: [] };
  const at = headers.findIndex((header) => header.toLowerCase() === 'content-type');
  const json: unknown = body === '' ? undefined : JSON.parse(body);
  return { method, url, type: at === -1 ? undefined : headers[at + 1], body: json };
};

test('a name that would change the path sends no request', async () => {
  const server = await startServer(echo);
  const client = createClient(server.rest());
  await expect(client.get(secrets, { namespace: 'prod', name: '..' })).rejects.toThrow(
    'cannot be part of the path',
  );
  await expect(client.delete(secrets, { namespace: 'prod', name: '' })).rejects.toThrow();
  await expect(
    client.apply(secrets, { metadata: { namespace: 'prod' } }, { fieldManager: 'm' }),
  ).rejects.toThrow();
  expect(server.requests).toHaveLength(0);
});

test('a metadata request has its own media type, and the result has the kind of its object', async () => {
  const server = await startServer((_request, response) => {
    sendJson(response, { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: ref });
  });
  expect(await createClient(server.rest()).getMetadata(secrets, ref)).toEqual({
    kind: 'Secret',
    apiVersion: 'v1',
    metadata: ref,
  });
  expect(server.requests[0]?.headers).toContain(
    'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1',
  );
});

test('every write has its media type, and objects have apiVersion and kind', async () => {
  const server = await startServer(echo);
  const client = createClient(server.rest());
  const path = '/api/v1/namespaces/prod/secrets/db';
  const typed = { apiVersion: 'v1', kind: 'Secret', ...secret };
  await client.create(secrets, secret, { dryRun: true, fieldManager: 'gatehouse' });
  await client.replace(secrets, secret);
  await client.replaceStatus(secrets, secret);
  await client.patchJson(secrets, ref, [{ op: 'remove', path: '/data/a' }]);
  await client.patchMerge(secrets, ref, { data: { a: null } });
  await client.patchStatus(secrets, ref, { status: {} });
  await client.apply(secrets, secret, { fieldManager: 'gatehouse', force: true });
  expect(server.requests.map((_, n) => sent(server, n))).toEqual([
    {
      method: 'POST',
      url: '/api/v1/namespaces/prod/secrets?dryRun=All&fieldManager=gatehouse',
      type: 'application/json',
      body: typed,
    },
    { method: 'PUT', url: path, type: 'application/json', body: typed },
    { method: 'PUT', url: `${path}/status`, type: 'application/json', body: typed },
    {
      method: 'PATCH',
      url: path,
      type: 'application/json-patch+json',
      body: [{ op: 'remove', path: '/data/a' }],
    },
    { method: 'PATCH', url: path, type: 'application/merge-patch+json', body: { data: { a: null } } },
    { method: 'PATCH', url: `${path}/status`, type: 'application/merge-patch+json', body: { status: {} } },
    {
      method: 'PATCH',
      url: `${path}?fieldManager=gatehouse&force=true`,
      type: 'application/apply-patch+yaml',
      body: typed,
    },
  ]);
});

test('an object without resourceVersion cannot be replaced', async () => {
  const server = await startServer(echo);
  const client = createClient(server.rest());
  await expect(client.replace(secrets, { metadata: ref })).rejects.toThrow(
    'secrets db lacks a resourceVersion: read it before you replace it, or use apply',
  );
  expect(() => guardedJsonPatch({ metadata: ref }, [])).toThrow('the object lacks a resourceVersion');
  expect(guardedJsonPatch(secret, [{ op: 'remove', path: '/data' }])).toEqual([
    { op: 'test', path: '/metadata/resourceVersion', value: '7' },
    { op: 'remove', path: '/data' },
  ]);
  expect(server.requests).toHaveLength(0);
});

test('a delete has its preconditions, and a missing object is a result', async () => {
  const server = await startServer((_request, response, n) => {
    if (n === 0) sendJson(response, { kind: 'Status', status: 'Success' });
    else sendJson(response, status(404, 'NotFound'), 404);
  });
  const client = createClient(server.rest());
  expect(
    await client.delete(secrets, ref, { preconditions: { uid: 'u', resourceVersion: '7' }, dryRun: true }),
  ).toBe('deleted');
  expect(await client.delete(secrets, ref)).toBe('absent');
  expect(sent(server)).toMatchObject({
    method: 'DELETE',
    url: '/api/v1/namespaces/prod/secrets/db', // no query: the API server reads either the query or the body
    body: { kind: 'DeleteOptions', preconditions: { uid: 'u', resourceVersion: '7' }, dryRun: ['All'] },
  });
});

test('a list is read page by page, and its items have apiVersion and kind', async () => {
  const server = await startServer(({ url }, response) => {
    const at = Number(url.searchParams.get('continue') ?? '0');
    const items = at === 2 ? null : [{ metadata: { name: `s${at}` } }];
    sendJson(response, { metadata: { resourceVersion: '9', continue: at < 2 ? String(at + 1) : '' }, items });
  });
  const all = await createClient(server.rest()).listAll(mutatingWebhookConfigurations, {
    labelSelector: 'a=b',
  });
  expect(all.items).toEqual(
    ['s0', 's1'].map((name) => ({
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'MutatingWebhookConfiguration',
      metadata: { name },
    })),
  );
  expect(all.metadata.resourceVersion).toBe('9');
  expect(server.requests.map(({ url }) => new URL(url, 'http://x').search)).toEqual([
    '?labelSelector=a%3Db&limit=500',
    '?labelSelector=a%3Db&limit=500&continue=1',
    '?labelSelector=a%3Db&limit=500&continue=2',
  ]);
});

test('a list that expires between two pages throws', async () => {
  const server = await startServer((_request, response, n) => {
    if (n === 0) sendJson(response, { metadata: { continue: 'x' }, items: [] });
    else sendJson(response, status(410, 'Expired'), 410);
  });
  const error: unknown = await createClient(server.rest())
    .listAll(secrets)
    .catch((e: unknown) => e);
  expect(error).toBeInstanceOf(ListExpiredError);
  expect(isGone(error)).toBe(true);
});

test('a fenced client still reads, but retries no write after it loses leadership', async () => {
  let leader = true;
  const server = await startServer(({ method }, response) => {
    if (method === 'GET') {
      sendJson(response, secret);
      return;
    }
    leader = false;
    sendJson(response, status(429, 'TooManyRequests'), 429, { 'retry-after': '0' });
  });
  const client = createClient(fenced(server.rest(), () => leader));
  await expect(client.replace(secrets, secret)).rejects.toMatchObject({ name: 'NotLeaderError' });
  expect(server.requests).toHaveLength(1);
  expect(await client.get(secrets, ref)).toEqual(secret);
});

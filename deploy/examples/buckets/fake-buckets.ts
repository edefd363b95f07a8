/**
 * A storage service for the example, over HTTP: node deploy/examples/buckets/fake-buckets.ts. It forgets everything when it ends.
 * PUT /buckets/ID/objects/NAME puts an object into a bucket, DELETE removes it. GET /created counts buckets, also deleted ones.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

interface Stored {
  readonly id: string;
  readonly region: string;
  readonly tag: string;
  readonly objects: Set<string>;
}

/** @param answersAfterMs how long an answer takes after the service has carried out a creation */
export async function startFakeBuckets({ port = 0, host = '127.0.0.1', answersAfterMs = 0 } = {}) {
  const buckets = new Map<string, Stored>();
  /** Idempotency keys, also of buckets that are gone. */
  const keys = new Map<string, string>();
  const shown = ({ objects, ...bucket }: Stored) => ({ ...bucket, objects: objects.size });

  const create = async (request: IncomingMessage) => {
    const key = String(request.headers['idempotency-key'] ?? '');
    const { region, tag } = (await json(request)) as { region: string; tag: string };
    if (key === '') return 400;
    const id = keys.get(key) ?? `b-${keys.size + 1}`;
    if (!keys.has(key)) buckets.set(id, { id, region, tag, objects: new Set() });
    keys.set(key, id);
    await sleep(answersAfterMs);
    const bucket = buckets.get(id);
    return bucket === undefined ? 410 : shown(bucket);
  };
  const change = (method: string, bucket: Stored, object: string | undefined) => {
    if (object === undefined) {
      if (method !== 'DELETE') return 405;
      if (bucket.objects.size > 0) return 409;
      buckets.delete(bucket.id);
    } else if (method === 'PUT') bucket.objects.add(object);
    else bucket.objects.delete(object);
    return 204;
  };
  const handle = async (request: IncomingMessage): Promise<object | number> => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://service');
    const { method = '' } = request;
    if (pathname === '/created') return { created: keys.size };
    const [, id, object] = /^\/buckets(?:\/([^/]+)(?:\/objects\/([^/]+))?)?$/.exec(pathname) ?? [];
    if (id === undefined) {
      if (method === 'POST') return await create(request);
      const tag = searchParams.get('tag');
      return [...buckets.values()].filter((one) => tag === null || one.tag === tag).map(shown);
    }
    const bucket = buckets.get(id);
    return bucket === undefined ? 404 : change(method, bucket, object);
  };
  const server = createServer((request, response) => {
    handle(request).then(
      (result) => {
        if (typeof result === 'number') response.writeHead(result).end();
        else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(result));
      },
      () => response.writeHead(400).end(),
    );
  });
  server.listen(port, host);
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    buckets: () => [...buckets.values()].map(shown),
    created: () => keys.size,
    stop: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

if (import.meta.main) {
  const { BUCKETS_HOST: host = '127.0.0.1', BUCKETS_ANSWER_AFTER_MS: delay = '0' } = process.env;
  const service = await startFakeBuckets({ port: 8091, host, answersAfterMs: Number(delay) });
  console.log(`the storage service listens on ${service.url}`);
}

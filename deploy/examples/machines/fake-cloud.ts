/**
 * A cloud for the example, over HTTP: node deploy/examples/machines/fake-cloud.ts. It forgets everything when it ends.
 * With CLOUD_FAILS=0.2, every fifth request fails, half of those after the cloud has carried it out.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

import type { CloudMachine } from './controllers/cloud/client.ts';

/** What happens to a request. `after`: the cloud has carried it out, and the client learns nothing. */
type Failure = 'before' | 'after' | undefined;

export interface FakeCloudOptions {
  /** Default: any free port. */
  readonly port?: number;
  readonly fails?: () => Failure | Promise<Failure>;
  /** How long a machine starts, in milliseconds. Default: 0. */
  readonly startsMs?: number;
}

interface Stored extends Omit<CloudMachine, 'state'> {
  readonly key: string;
  readonly createdAt: number;
}

export async function startFakeCloud({
  port = 0,
  fails = () => undefined,
  startsMs = 0,
}: FakeCloudOptions = {}) {
  const machines = new Map<string, Stored>();
  /** Idempotency keys, also of machines that are gone. */
  const keys = new Map<string, string>();
  let created = 0;
  const shown = ({ id, name, size, address, createdAt }: Stored): CloudMachine => ({
    ...{ id, name, size, address },
    state: Date.now() < createdAt + startsMs ? 'starting' : 'running',
  });

  const create = (key: string, { name, size }: { name: string; size: string }): CloudMachine | number => {
    if (key === '') return 400;
    const known = keys.get(key);
    if (known !== undefined) {
      const machine = machines.get(known);
      return machine === undefined ? 410 : shown(machine);
    }
    created += 1;
    const id = `m-${created}`;
    const machine = { id, key, name, size, address: `192.0.2.${created % 256}`, createdAt: Date.now() };
    machines.set(id, machine);
    keys.set(key, id);
    return shown(machine);
  };

  const handle = async (request: IncomingMessage): Promise<object | number> => {
    const { method, url = '' } = request;
    const id = /^\/machines\/([^/]+)$/.exec(url)?.[1];
    if (id === undefined) {
      if (url !== '/machines') return 404;
      if (method === 'GET') return [...machines.values()].map(shown);
      if (method !== 'POST') return 405;
      const key = request.headers['idempotency-key'];
      return create(
        typeof key === 'string' ? key : '',
        (await json(request)) as { name: string; size: string },
      );
    }
    const machine = machines.get(id);
    if (machine === undefined) return 404;
    if (method === 'DELETE') return machines.delete(id) ? 204 : 404;
    if (method === 'GET') return shown(machine);
    if (method !== 'PATCH') return 405;
    const { size } = (await json(request)) as { size: string };
    machines.set(id, { ...machine, size });
    return shown({ ...machine, size });
  };

  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const failure = await fails();
    if (failure === 'before') {
      response.writeHead(503).end();
      return;
    }
    const result = await handle(request);
    if (failure === 'after') {
      request.socket.destroy();
      return;
    }
    if (typeof result === 'number') response.writeHead(result).end();
    else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(result));
  };

  const server = createServer((request, response) => {
    respond(request, response).catch(() => response.writeHead(400).end());
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    machines: (): readonly CloudMachine[] => [...machines.values()].map(shown),
    /** How many machines there ever were. */
    created: () => created,
    stop: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

if (import.meta.main) {
  const share = Number(process.env.CLOUD_FAILS ?? 0);
  const fails = (): Failure =>
    Math.random() >= share ? undefined : Math.random() < 0.5 ? 'before' : 'after';
  const cloud = await startFakeCloud({ port: 8090, fails, startsMs: 2_000 });
  console.log(`the cloud listens on ${cloud.url}`);
}

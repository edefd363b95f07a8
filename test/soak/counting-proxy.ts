/** A proxy between one replica and the API server. It records when each request arrives, and can simulate an outage. */
import { mkdirSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Agent, createServer } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { TLSSocket } from 'node:tls';

import { createSandboxTls } from '../../src/cli/sandbox/api.ts';
import { ask, pass } from '../support/api-proxy-exchange.ts';
import { perUser, writeKubeconfigs } from '../support/control-plane-users.ts';
import type { ControlPlane, User } from '../support/control-plane.ts';

export interface CountingProxy {
  readonly kubeconfig: (user: User) => string;
  /** When the requests arrived, in the time of `performance.now()`. */
  readonly arrivals: () => readonly number[];
  readonly watches: () => number;
  readonly close: () => Promise<void>;
  readonly open: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

export async function startCountingProxy(
  plane: Pick<ControlPlane, 'server' | 'ca' | 'folder' | 'token'>,
  name: string,
): Promise<CountingProxy> {
  const agent = new Agent({ keepAlive: true, ca: plane.ca });
  const { ca, cert, key } = await createSandboxTls(new Date());
  const arrivals: number[] = [];
  const sockets = new Set<TLSSocket>();
  let watches = 0;

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? '/', 'https://api');
    const isWatch = url.searchParams.get('watch') === 'true';
    arrivals.push(performance.now());
    const answer = await ask(plane.server, agent, { request, response, body: await text(request) });
    const opened = isWatch && answer.statusCode === 200;
    if (opened) watches += 1;
    try {
      await pass(answer, response);
    } finally {
      if (opened) watches -= 1;
    }
  };
  const server = createServer({ cert, key, keepAliveTimeout: 120_000 }, (request, response) => {
    // Clients of a stopped API server see a closed connection.
    handle(request, response).catch(() => response.destroy());
  });
  server.on('secureConnection', (socket: TLSSocket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
  });
  let port = 0;
  const open = async () => {
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
    port = address.port;
  };
  const close = async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  await open();
  const folder = join(plane.folder, `counting-${name}`);
  mkdirSync(folder, { recursive: true });
  const kubeconfigs = writeKubeconfigs(folder, `https://localhost:${port}`, ca, perUser(plane.token));
  return {
    kubeconfig: (user) => kubeconfigs[user],
    arrivals: () => arrivals,
    watches: () => watches,
    close,
    open,
    stop: async () => {
      if (server.listening) await close();
      agent.destroy();
    },
  };
}

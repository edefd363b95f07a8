/** A TLS proxy in front of an API server. It injects faults of networks and API servers into requests and watches. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Agent, createServer as createTlsServer } from 'node:https';
import { text as textOf } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';

import { createSandboxTls } from '../../src/cli/sandbox/api.ts';
import { jsonIn } from '../../src/json/json.ts';
import {
  answer,
  ask,
  createInterception,
  harm,
  isWriteMethod,
  pass,
  toWrite,
  type Exchange,
  type Fault,
  type Forward,
  type Pending,
  type Write,
} from './api-proxy-exchange.ts';
import { kubeconfigsThrough } from './control-plane-users.ts';
import type { ControlPlane } from './control-plane.ts';
import { listen } from './tls.ts';

export type { Fault } from './api-proxy-exchange.ts';

/** Answers or delays a request instead of forwarding it. Undefined: the proxy forwards it. */
type Own = { readonly code: number; readonly body: object } | undefined;
export type OwnAnswer = (method: string, path: string, body: unknown) => Own | Promise<Own>;

export type ApiProxy = Awaited<ReturnType<typeof startApiProxy>>;

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly write: Write | undefined;
}

type Endpoint = Pick<ControlPlane, 'server' | 'ca' | 'folder' | 'token'>;

/** @param name the subfolder for its kubeconfigs, inside the folder of the control plane */
export async function startApiProxy(plane: Endpoint, name: string, ownAnswer: OwnAnswer = () => undefined) {
  const agent = new Agent({ keepAlive: true, ca: plane.ca });
  let shiftMs = 0;
  const forward: Forward = async (exchange) => {
    const message = await ask(plane.server, agent, exchange);
    const { date } = message.headers;
    if (date !== undefined) message.headers.date = new Date(Date.parse(date) + shiftMs).toUTCString();
    return message;
  };
  const requests = createRequests(forward);
  const watches = new Map<ServerResponse, string>();

  const server = await startServer(async (request, response) => {
    const exchange = { request, response, body: await textOf(request) };
    const { method = 'GET', url: path = '/' } = request;
    const body = jsonIn(exchange.body);
    const own = await ownAnswer(method, path, body);
    if (own !== undefined) answer(response, own.code, own.body);
    else if (/[?&]watch=(true|1)(&|$)/.test(path)) {
      const opened = await forward(exchange);
      if (opened.statusCode === 200 && !response.destroyed) watches.set(response, path);
      response.once('close', () => watches.delete(response));
      await pass(opened, response);
    } else {
      const write = isWriteMethod(method) ? toWrite(method, request, body) : undefined;
      await requests.handle({ method, path, write }, exchange);
    }
  });
  return {
    ...requests.faults,
    kubeconfig: kubeconfigsThrough(plane, name, {
      server: `https://localhost:${server.port}`,
      ca: server.ca,
    }),
    /** The API server's clock, as its clients see it, is so many milliseconds ahead. */
    shiftClock: (ms: number) => void (shiftMs = ms),
    watches: () => watches.size,
    /** Breaks all connections, and refuses new ones until `open`, as when the API server is down. */
    close: server.close,
    open: server.open,
    breakWatches: (matches: (path: string) => boolean) => {
      for (const [response, path] of watches) if (matches(path)) response.socket?.destroy();
    },
    stop: async () => {
      await server.stop();
      agent.destroy();
    },
  };
}

function createRequests(forward: Forward) {
  const listeners = new Set<(write: Write) => void>();
  const pending = new Set<Pending>();
  let delay = (): number => 0;
  let choose: ((asked: Asked) => Fault | undefined) | undefined;
  const faults = {
    /** The next write that `matches` meets the fault, once. */
    intercept: (matches: (write: Write) => boolean, fault: Fault) => {
      const { interception, mine } = createInterception(matches, fault);
      pending.add(mine);
      return interception;
    },
    /** Calls the listener for each write, before any fault applies. Returns a function that unsubscribes. */
    onWrite: (listener: (write: Write) => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    /** Delay of each write before the proxy forwards it, in milliseconds. Default: 0. */
    delayWrites: (ms: () => number) => void (delay = ms),
    /** Chooses a fault for each later request other than a watch. Replaces the previous choice. */
    disturb: (chosen: typeof choose) => void (choose = chosen),
  };
  const handle = async (asked: Asked, exchange: Exchange): Promise<void> => {
    const { write } = asked;
    if (write !== undefined) {
      for (const listener of listeners) listener(write);
      const ms = delay();
      if (ms > 0) await sleep(ms);
      const met = [...pending].find(({ matches }) => matches(write));
      if (met !== undefined) {
        pending.delete(met);
        await harm({ ...met, onMet: () => met.onMet(write) }, exchange, forward);
        return;
      }
    }
    const fault = choose?.(asked);
    if (fault === undefined) await pass(await forward(exchange), exchange.response);
    else await harm({ fault, released: NEVER }, exchange, forward);
  };
  return { faults, handle };
}

const NEVER = new Promise<never>(() => undefined);

async function startServer(handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>) {
  const { ca, cert, key } = await createSandboxTls(new Date());
  const sockets = new Set<TLSSocket>();
  const failures: unknown[] = [];
  const server = createTlsServer({ cert, key, keepAliveTimeout: 120_000 }, (request, response) => {
    handle(request, response).catch((error: unknown) => {
      // A killed client breaks its connections: that is not a failure of the proxy.
      if (!response.destroyed && !request.destroyed) failures.push(error);
      response.destroy();
    });
  });
  server.on('secureConnection', (socket: TLSSocket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
  });
  const port = await listen(server);
  const close = async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  return {
    port,
    ca,
    close,
    open: () => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve)),
    stop: async () => {
      if (server.listening) await close();
      if (failures.length > 0)
        throw new Error(`the proxy failed ${failures.length} times without an injected fault`, {
          cause: failures[0],
        });
    },
  };
}

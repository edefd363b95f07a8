/** A TLS proxy before an API server that does to single writes what networks and API servers do to them on bad days. */
import { mkdirSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Agent, createServer as createTlsServer } from 'node:https';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';

import { createSandboxTls } from '../../src/commands/sandbox/tls.ts';
import {
  answer,
  ask,
  isWriteMethod,
  parseBody,
  pass,
  toWrite,
  type Exchange,
  type Write,
} from './api-proxy-exchange.ts';
import { perUser, writeKubeconfigs, type User } from './control-plane-users.ts';
import type { ControlPlane } from './control-plane.ts';
import { listen } from './tls.ts';

/** Whether the API server carries the write out (`applied`), and whether the client learns of it. */
export type Fault =
  /** The client gets this answer, instead of the write or after it was carried out. */
  | {
      readonly kind: 'answer';
      readonly code: number;
      readonly applied: boolean;
      readonly retryAfterSeconds?: number;
    }
  /** The connection breaks. */
  | { readonly kind: 'reset'; readonly applied: boolean }
  /** The write, or its answer, is kept back until it is released. Dropped when its sender dies or hangs up before. */
  | { readonly kind: 'hold'; readonly applied: boolean };

/** One fault, waiting for its write. */
export interface Interception {
  /** The write that it met, once it was carried out if it is to be. */
  readonly met: Promise<Write>;
  readonly isMet: () => boolean;
  /** Lets what is held back go on. */
  readonly release: () => void;
  /** What the API server said to the write; undefined while it has not been asked. */
  readonly upstreamCode: () => number | undefined;
}

interface Own {
  readonly code: number;
  readonly body: object;
}

/** Answers a request itself instead of passing it on, or has it wait. Undefined: passes it on. */
export type OwnAnswer = (
  method: string,
  path: string,
  body: unknown,
) => Own | undefined | Promise<Own | undefined>;

export interface ApiProxy {
  readonly kubeconfig: (user: User) => string;
  /** The first write that `matches` from now on meets the fault, once. */
  readonly intercept: (matches: (write: Write) => boolean, fault: Fault) => Interception;
  /** Told of each write before anything is done about it. Returns how to end that. */
  readonly onWrite: (listener: (write: Write) => void) => () => void;
  /** How long each write waits before it is passed on, in milliseconds. Default: 0. */
  readonly delayWrites: (ms: () => number) => void;
  readonly stop: () => Promise<void>;
}

/** The side of an interception that the proxy sees. */
interface Pending {
  readonly matches: (write: Write) => boolean;
  readonly fault: Fault;
  readonly onMet: (write: Write) => void;
  readonly released: Promise<unknown>;
  readonly onUpstream: (code: number | undefined) => void;
}

type Forward = (exchange: Exchange) => Promise<IncomingMessage>;

/** @param name of the folder for its kubeconfigs, inside the folder of the control plane */
export async function startApiProxy(
  plane: ControlPlane,
  name: string,
  ownAnswer: OwnAnswer = () => undefined,
): Promise<ApiProxy> {
  const agent = new Agent({ keepAlive: true, ca: plane.ca });
  const listeners = new Set<(write: Write) => void>();
  const pending = new Set<Pending>();
  let delay = (): number => 0;
  const forward: Forward = (exchange) => ask(plane.server, agent, exchange);

  const write = async (one: Write, exchange: Exchange): Promise<void> => {
    for (const listener of listeners) listener(one);
    const ms = delay();
    if (ms > 0) await sleep(ms);
    const met = [...pending].find(({ matches }) => matches(one));
    if (met === undefined) {
      await pass(await forward(exchange), exchange.response);
      return;
    }
    pending.delete(met);
    await harm(met, one, exchange, forward);
  };
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const exchange = { request, response, body: await textOf(request) };
    const { method = 'GET', url = '/' } = request;
    const body = parseBody(exchange.body);
    const own = await ownAnswer(method, url, body);
    if (own !== undefined) answer(response, own.code, own.body);
    else if (isWriteMethod(method)) await write(toWrite(method, request, body), exchange);
    else await pass(await forward(exchange), response);
  };
  const server = await startServer(handle);

  return {
    kubeconfig: kubeconfigsFor(plane, name, server),
    intercept: (matches, fault) => {
      const { interception, mine } = createInterception(matches, fault);
      pending.add(mine);
      return interception;
    },
    onWrite: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    delayWrites: (ms) => {
      delay = ms;
    },
    stop: async () => {
      await server.stop();
      agent.destroy();
    },
  };
}

interface RunningServer {
  readonly port: number;
  readonly ca: string;
  /** @throws Error if the proxy failed where no test had told it to */
  readonly stop: () => Promise<void>;
}

async function startServer(
  handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
): Promise<RunningServer> {
  const { ca, cert, key } = await createSandboxTls(new Date());
  const sockets = new Set<TLSSocket>();
  const failures: unknown[] = [];
  const server = createTlsServer({ cert, key, keepAliveTimeout: 120_000 }, (request, response) => {
    handle(request, response).catch((error: unknown) => {
      // A client that is killed breaks its connections, and that is no failure of ours.
      if (!response.destroyed && !request.destroyed) failures.push(error);
      response.destroy();
    });
  });
  server.on('secureConnection', (socket: TLSSocket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
  });
  return {
    port: await listen(server),
    ca,
    stop: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
      if (failures.length > 0)
        throw new Error(`the proxy failed ${failures.length} times by itself`, { cause: failures[0] });
    },
  };
}

function kubeconfigsFor(
  plane: ControlPlane,
  name: string,
  { port, ca }: RunningServer,
): (user: User) => string {
  const folder = join(plane.folder, `proxy-${name}`);
  mkdirSync(folder, { recursive: true });
  const paths = writeKubeconfigs(folder, `https://localhost:${port}`, ca, perUser(plane.token));
  return (user) => paths[user];
}

function createInterception(matches: Pending['matches'], fault: Fault) {
  const met = Promise.withResolvers<Write>();
  const released = Promise.withResolvers<undefined>();
  let isMet = false;
  let code: number | undefined;
  const interception: Interception = {
    met: met.promise,
    isMet: () => isMet,
    release: () => {
      released.resolve(undefined);
    },
    upstreamCode: () => code,
  };
  const mine: Pending = {
    matches,
    fault,
    onMet: (write) => {
      isMet = true;
      met.resolve(write);
    },
    released: released.promise,
    onUpstream: (said) => {
      code = said;
    },
  };
  return { interception, mine };
}

async function harm(
  { fault, onMet, released, onUpstream }: Pending,
  write: Write,
  exchange: Exchange,
  forward: Forward,
): Promise<void> {
  const { request, response } = exchange;
  const carryOut = async () => {
    const result = await forward(exchange);
    onUpstream(result.statusCode);
    return result;
  };
  const result = fault.applied ? await carryOut() : undefined;
  onMet(write);
  if (fault.kind === 'hold') {
    const gone = new Promise<'gone'>((resolve) => {
      response.once('close', () => {
        resolve('gone');
      });
    });
    const outcome = response.destroyed ? 'gone' : await Promise.race([released, gone]);
    if (outcome !== 'gone') await pass(result ?? (await carryOut()), response);
    else result?.destroy();
    return;
  }
  if (result !== undefined) await textOf(result);
  if (fault.kind === 'reset') request.socket.destroy();
  else answer(response, fault.code, statusOf(fault.code), fault.retryAfterSeconds);
}

const REASONS: Readonly<Record<number, string>> = {
  403: 'Forbidden',
  409: 'Conflict',
  429: 'TooManyRequests',
  500: 'InternalError',
  504: 'Timeout',
};

const statusOf = (code: number) => ({
  kind: 'Status',
  apiVersion: 'v1',
  metadata: {},
  status: 'Failure',
  message: `the test answers ${code}`,
  reason: REASONS[code] ?? 'Unknown',
  code,
});

/** One request through the proxy: how the proxy classifies it, forwards it and returns the response. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { request as tlsRequest, type Agent } from 'node:https';
import { once } from 'node:events';
import { text as textOf } from 'node:stream/consumers';

import { textIn } from '../../src/json/json.ts';

export interface Write {
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** `secrets gatehouse-system/gatehouse-authority`, as in `gatehouse-audit.ts`. */
  readonly target: string;
  readonly body: unknown;
  readonly sender: string;
}

export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly body: string;
}

export function ask(
  server: string,
  agent: Agent,
  { request, response, body }: Exchange,
): Promise<IncomingMessage> {
  const { method = 'GET', url = '/' } = request;
  const headers = {
    ...without(request.headers, ['host', 'connection', 'content-length', 'transfer-encoding']),
    ...(body === '' ? {} : { 'content-length': Buffer.byteLength(body) }),
  };
  return new Promise((resolve, reject) => {
    const call = tlsRequest(new URL(url, server), { agent, method, headers }, resolve);
    call.on('error', reject);
    // A watch ends when its reader leaves. The API server carries out a write even if its sender has left.
    if (method === 'GET') response.once('close', () => call.destroy());
    call.end(body === '' ? undefined : body);
  });
}

/** Copies head and body as they arrive, because watches do not end. */
export function pass(from: IncomingMessage, to: ServerResponse): Promise<void> {
  to.writeHead(from.statusCode ?? 502, without(from.headers, ['connection', 'keep-alive']));
  to.flushHeaders();
  from.pipe(to);
  from.on('error', () => to.destroy());
  return new Promise((resolve) => to.once('close', resolve));
}

export function answer(
  response: ServerResponse,
  code: number,
  body: object,
  retryAfterSeconds?: number,
): void {
  response.writeHead(code, {
    'content-type': 'application/json',
    ...(retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }),
  });
  response.end(JSON.stringify(body));
}

const without = (headers: IncomingHttpHeaders, names: readonly string[]): IncomingHttpHeaders =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)));

export const isWriteMethod = (method: string): method is Write['method'] =>
  ['POST', 'PUT', 'PATCH', 'DELETE'].includes(method);

/** Parses paths such as `/api/v1/namespaces/x/secrets/y` and `/apis/group/v1/things/y/status`. */
export function toWrite(
  method: Write['method'],
  { url = '/', headers }: IncomingMessage,
  body: unknown,
): Write {
  const parts = new URL(url, 'https://api').pathname.split('/').slice(1);
  const rest = parts.slice(parts[0] === 'api' ? 2 : 3);
  const namespaced = rest[0] === 'namespaces' && rest.length > 2;
  const [resource = '', inPath, ...subresource] = namespaced ? rest.slice(2) : rest;
  const place = [namespaced ? rest[1] : undefined, inPath ?? textIn(body, 'metadata', 'name')].filter(
    (part) => part !== undefined,
  );
  const sender = /\((.*)\)/.exec(headers['user-agent'] ?? '')?.[1] ?? '';
  return { method, target: `${[resource, ...subresource].join('/')} ${place.join('/')}`, body, sender };
}

interface Response {
  readonly code: number;
  readonly retryAfterSeconds?: number;
}

/** `applied`: whether the API server carries the request out. */
export type Fault =
  /** The client gets this response, instead of the request or after the API server has carried it out. */
  | ({ readonly kind: 'answer'; readonly applied: boolean } & Response)
  | { readonly kind: 'reset'; readonly applied: boolean }
  /** The proxy holds the request or its response until a release, and drops it if its sender hangs up first. */
  | { readonly kind: 'hold'; readonly applied: boolean }
  /** The proxy replaces the response's body, for example with another resourceVersion. */
  | { readonly kind: 'rewrite'; readonly change: (body: string) => string };

export type Pending = ReturnType<typeof createInterception>['mine'];

export type Forward = (exchange: Exchange) => Promise<IncomingMessage>;

export function createInterception(matches: (write: Write) => boolean, fault: Fault) {
  const met = Promise.withResolvers<Write>();
  const released = Promise.withResolvers<undefined>();
  let isMet = false;
  let code: number | undefined;
  const interception = {
    /** The intercepted write. Resolves after the API server has carried it out, if the fault lets it. */
    met: met.promise,
    isMet: () => isMet,
    upstreamCode: () => code,
    release: () => released.resolve(undefined),
  };
  const mine = {
    matches,
    fault,
    onMet: (write: Write) => {
      isMet = true;
      met.resolve(write);
    },
    released: released.promise,
    onUpstream: (said: number | undefined) => void (code = said),
  };
  return { interception, mine };
}

interface Harm {
  readonly fault: Fault;
  readonly released: Promise<unknown>;
  /** Called before the sender learns anything. */
  readonly onMet?: () => void;
  readonly onUpstream?: (code: number | undefined) => void;
}

export async function harm(
  { fault, released, onMet = () => undefined, onUpstream = () => undefined }: Harm,
  exchange: Exchange,
  forward: Forward,
): Promise<void> {
  const { request, response } = exchange;
  const carryOut = async () => {
    const result = await forward(exchange);
    onUpstream(result.statusCode);
    return result;
  };
  const applied = 'applied' in fault && fault.applied ? await carryOut() : undefined;
  onMet();
  switch (fault.kind) {
    case 'answer':
      if (applied !== undefined) await textOf(applied);
      answer(response, fault.code, statusOf(fault.code), fault.retryAfterSeconds);
      return;
    case 'reset':
      if (applied !== undefined) await textOf(applied);
      request.socket.destroy();
      return;
    case 'hold':
      if (await hungUp(exchange, released)) applied?.destroy();
      else await pass(applied ?? (await carryOut()), response);
      return;
    case 'rewrite': {
      const result = await carryOut();
      const body = fault.change(await textOf(result));
      response.writeHead(result.statusCode ?? 502, { 'content-type': 'application/json' });
      response.end(body);
    }
  }
}

async function hungUp({ response }: Exchange, released: Promise<unknown>): Promise<boolean> {
  if (response.destroyed) return true;
  const gone = once(response, 'close').then(() => true);
  return await Promise.race([released.then(() => false), gone]);
}

const REASONS: Readonly<Record<number, string>> = {
  403: 'Forbidden',
  409: 'Conflict',
  410: 'Expired',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
  504: 'Timeout',
};

const statusOf = (code: number) => ({
  kind: 'Status',
  apiVersion: 'v1',
  metadata: {},
  status: 'Failure',
  code,
  message: `the test answers ${code}`,
  reason: REASONS[code] ?? 'Unknown',
});

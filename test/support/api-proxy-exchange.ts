/** One request through the proxy: how the proxy classifies it, forwards it and returns the response. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { request as tlsRequest, type Agent } from 'node:https';

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
  const place = [namespaced ? rest[1] : undefined, inPath ?? nameIn(body)].filter(
    (part) => part !== undefined,
  );
  const sender = /\((.*)\)/.exec(headers['user-agent'] ?? '')?.[1] ?? '';
  return { method, target: `${[resource, ...subresource].join('/')} ${place.join('/')}`, body, sender };
}

function nameIn(body: unknown): string {
  if (typeof body !== 'object' || body === null || !('metadata' in body)) return '';
  const { metadata } = body;
  if (typeof metadata !== 'object' || metadata === null || !('name' in metadata)) return '';
  return String(metadata.name);
}

export function parseBody(text: string): unknown {
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

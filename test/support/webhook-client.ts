/** Talks to a webhook server like the API server does: one review per HTTPS request. */
import { once } from 'node:events';
import { Agent, request, type RequestOptions } from 'node:https';
import type { ClientRequest, IncomingHttpHeaders } from 'node:http';
import { text } from 'node:stream/consumers';
import { connect, type ConnectionOptions } from 'node:tls';
import { onTestFinished } from 'vitest';

import { ENTRY, SERVER_NAME, type Endpoint } from './webhook-server.ts';

export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface PostOptions {
  readonly agent?: Agent | false;
  readonly headers?: Readonly<Record<string, string>>;
  readonly method?: string;
  readonly signal?: AbortSignal;
}

/** @param body sent in chunks, without a content length, unless it is a string or a buffer */
export async function post(
  { port, ca, servername = SERVER_NAME }: Endpoint,
  path: string,
  body: string | Buffer | Iterable<Buffer>,
  { agent = false, headers = {}, method = 'POST', signal }: PostOptions = {},
): Promise<HttpAnswer> {
  const whole = typeof body === 'string' || Buffer.isBuffer(body);
  const options: RequestOptions = {
    host: '127.0.0.1',
    port,
    ca,
    servername,
    method,
    path,
    agent,
    headers: { 'content-type': 'application/json', ...headers },
    ...(signal === undefined ? {} : { signal }),
  };
  return await new Promise((resolve, reject) => {
    const sent = request(options, (response) => {
      const { statusCode: status = 0, headers } = response;
      text(response).then((received) => resolve({ status, headers, body: received }), reject);
    });
    sent.on('error', reject);
    if (whole) sent.end(body);
    else void writeAll(sent, body);
  });
}

export function keptAlive(maxSockets = Infinity): Agent {
  const agent = new Agent({ keepAlive: true, maxSockets });
  onTestFinished(() => agent.destroy());
  return agent;
}

/** Writes until the server has answered or hung up: the server does not read the rest. */
async function writeAll(sent: ClientRequest, chunks: Iterable<Buffer>): Promise<void> {
  const over = new AbortController();
  for (const event of ['response', 'close']) sent.once(event, () => over.abort());
  for (const chunk of chunks) {
    if (over.signal.aborted) break;
    if (!sent.write(chunk)) await once(sent, 'drain', over).catch(() => undefined);
  }
  sent.end();
}

export type RawConnection = Awaited<ReturnType<typeof openRaw>>;

export async function openRaw({ port, ca }: Endpoint, options: ConnectionOptions = {}) {
  const socket = connect({ host: '127.0.0.1', port, ca, servername: SERVER_NAME, ...options });
  let seen = '';
  let closed = false;
  socket.on('data', (chunk: Buffer) => (seen += chunk.toString('latin1')));
  socket.on('close', () => (closed = true));
  await new Promise<void>((resolve, reject) => {
    socket.once('secureConnect', resolve).once('error', reject);
  });
  socket.removeAllListeners('error').on('error', () => undefined); // the `close` event that follows reports a reset
  return {
    socket,
    received: (until?: RegExp) =>
      new Promise<string>((resolve) => {
        const look = () => {
          if (closed || until?.test(seen) === true) resolve(seen);
        };
        socket.on('data', look).on('close', look);
        look();
      }),
  };
}

export function rawPost(path: string, body: string, headers: readonly string[] = []): string {
  return rawHead(path, [`content-length: ${Buffer.byteLength(body)}`, ...headers]) + body;
}

export function rawHead(path: string, headers: readonly string[]): string {
  const all = ['host: gatehouse', 'content-type: application/json', ...headers];
  return `POST ${path} HTTP/1.1\r\n${all.join('\r\n')}\r\n\r\n`;
}

export interface ReviewFields {
  readonly uid?: string;
  readonly name?: string;
  readonly namespace?: string;
  readonly operation?: string;
  readonly resource?: { readonly group: string; readonly version: string; readonly resource: string };
  readonly kind?: { readonly group: string; readonly version: string; readonly kind: string };
  readonly object?: unknown;
  readonly oldObject?: unknown;
}

export function reviewOf(fields: ReviewFields = {}): string {
  const object = serverObject();
  return JSON.stringify({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: 'a-uid',
      kind: { group: 'infra.example.com', version: 'v1', kind: 'Server' },
      resource: { group: 'infra.example.com', version: 'v1', resource: 'servers' },
      name: 'a',
      namespace: 'store',
      operation: 'CREATE',
      userInfo: { username: 'jane', groups: ['system:authenticated'] },
      object,
      oldObject: null,
      dryRun: false,
      options: null,
      ...fields,
    },
  });
}

export function serverObject(spec: object = {}): object {
  return {
    apiVersion: 'infra.example.com/v1',
    kind: 'Server',
    metadata: { name: 'a', namespace: 'store' },
    spec: { datacenter: 'fra1', ...spec },
  };
}

export const MUTATE = `/mutate/${ENTRY}?timeout=7s`;
export const VALIDATE = `/validate/${ENTRY}?timeout=7s`;

import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { onTestFinished } from 'vitest';
import { createConnection } from '../../../src/kube/connection.ts';
import { createRest, type RestOptions } from '../../../src/kube/rest.ts';
import { sign } from '../pki/openssl-ca.ts';
import { listen } from '../tls.ts';

interface Received {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['rawHeaders'];
  readonly body: string;
}

export type FakeServer = Awaited<ReturnType<typeof startServer>>;

export type Handler = (
  request: {
    readonly method: string;
    readonly url: URL;
    readonly body: string;
    readonly headers: IncomingMessage['headers'];
  },
  response: ServerResponse,
  n: number,
) => void;

/** An HTTP server on a free loopback port; the end of the test closes it. `n` counts requests from 0. */
export async function startServer(handler: Handler, tls?: { readonly key: string; readonly cert: string }) {
  const requests: Received[] = [];
  const listener: RequestListener = (request, response) => {
    let body = '';
    request
      .setEncoding('utf8')
      .on('data', (chunk: string) => (body += chunk))
      .on('end', () => {
        const { method = '', url = '', rawHeaders, headers } = request;
        const n = requests.push({ method, url, headers: rawHeaders, body }) - 1;
        handler({ method, url: new URL(url, 'http://fake'), body, headers }, response, n);
      });
  };
  const server: Server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
  let connections = 0;
  server.on(tls === undefined ? 'connection' : 'secureConnection', () => connections++);
  const port = await listen(server);
  const url = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`;
  const connection = createConnection({ server: url }, () =>
    Promise.resolve({ headers: {}, tls: tls === undefined ? {} : { ca: tls.cert } }),
  );
  onTestFinished(async () => {
    await connection.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return {
    url,
    requests,
    connections: () => connections,
    connection,
    rest: (options?: Partial<RestOptions>) => createRest({ connection, userAgent: 'test', ...options }),
    cut: () => server.closeAllConnections(),
  };
}

export function sendJson(
  response: ServerResponse,
  body: unknown,
  code = 200,
  headers: Record<string, string> = {},
): void {
  response.writeHead(code, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}

export const always =
  (body: unknown, code = 200, headers: Record<string, string> = {}): Handler =>
  (_request, response) =>
    sendJson(response, body, code, headers);

export const status = (code: number, reason: string, more: object = {}): object => ({
  kind: 'Status',
  apiVersion: 'v1',
  status: 'Failure',
  code,
  reason,
  message: `${reason} said the fake server`,
  ...more,
});

export const selfSigned = () =>
  sign({ subject: '/CN=fake' }, ['basicConstraints=CA:TRUE', 'subjectAltName=IP:127.0.0.1']);

export function headerLines(rawHeaders: readonly string[], name: string): string[] {
  return rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]?.toLowerCase() === name.toLowerCase());
}

/** Polls until `check` returns true; otherwise the timeout of the test ends it. */
export async function until(check: () => boolean): Promise<void> {
  while (!check()) await new Promise((resolve) => setTimeout(resolve, 2));
}

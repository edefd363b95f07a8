import { Pool } from 'undici';

import type { ApiObject } from '../../src/machinery/api-object.ts';

/** The number of concurrent requests, each on its own connection. */
const LANES = 16;
const NEWLINE = 10;

export interface Client {
  /** Returns the response body. @throws Error when the status is an error */
  readonly send: (method: Method, path: string, body?: object, contentType?: string) => Promise<string>;
  readonly list: (path: string) => Promise<List>;
  /** Opens a watch. The returned function reads `events` events and closes the watch. */
  readonly watch: (path: string) => Promise<(events: number) => Promise<void>>;
  readonly close: () => Promise<void>;
}

export interface List {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly ApiObject[];
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH';

/** A client with keep-alive connections. Watches use other connections than requests. */
export function createClient(port: number, ca: string, token: string): Client {
  const origin = `https://localhost:${port}`;
  const headers = { authorization: `Bearer ${token}`, 'user-agent': 'bench/1' };
  const requests = new Pool(origin, { connections: LANES, connect: { ca } });
  const watches = new Pool(origin, { connect: { ca }, bodyTimeout: 0 });

  const send: Client['send'] = async (method, path, body, contentType = 'application/json') => {
    const answer = await requests.request({
      method,
      path,
      headers: { ...headers, 'content-type': contentType },
      body: body === undefined ? null : JSON.stringify(body),
    });
    const text = await answer.body.text();
    if (answer.statusCode > 299) throw new Error(`${method} ${path}: ${answer.statusCode} ${text}`);
    return text;
  };
  return {
    send,
    list: async (path) => JSON.parse(await send('GET', path)) as List, // the sandbox is our own
    watch: async (path) => {
      const { statusCode, body } = await watches.request({ method: 'GET', path, headers });
      if (statusCode !== 200) throw new Error(`watch of ${path}: ${statusCode} ${await body.text()}`);
      return async (events) => {
        let seen = 0;
        for await (const chunk of body as AsyncIterable<Buffer>) {
          for (const byte of chunk) if (byte === NEWLINE) seen += 1;
          if (seen >= events) break;
        }
      };
    },
    close: async () => {
      await Promise.all([requests.destroy(), watches.destroy()]);
    },
  };
}

/** Calls `work` `count` times, with one concurrent call per connection of the client. */
export async function times(count: number, work: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < count) {
      const index = next;
      next += 1;
      await work(index);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

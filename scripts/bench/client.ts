import { Pool } from 'undici';

import type { ApiObject } from '../../src/sandbox/machinery/api-object.ts';

/** Requests that wait for their answers at the same time, each on a connection of its own. */
const LANES = 16;
const NEWLINE = 10;

export interface Client {
  /** The text of the answer. @throws Error when it is a refusal */
  readonly send: (method: Method, path: string, body?: object, contentType?: string) => Promise<string>;
  readonly list: (path: string) => Promise<List>;
  /** Opens a watch. The answer reads so many events and ends it. */
  readonly watch: (path: string) => Promise<(events: number) => Promise<void>>;
  readonly close: () => Promise<void>;
}

export interface List {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly ApiObject[];
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH';

/** A client that keeps its connections. Watches have others than requests. */
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

/** Does something `count` times, with as many at a time as the client has connections. */
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

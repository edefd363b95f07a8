/** A client without retries: each result belongs to exactly one request. It uses undici's pool directly. */
import { Pool } from 'undici';

import type { ControlPlane } from '../support/control-plane.ts';
import type { Machine } from './kinds.ts';
import type { Heard } from './oracle.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export interface Client {
  readonly ask: (method: Method, path: string, body?: object) => Promise<Heard>;
  readonly stop: () => Promise<void>;
}

/** The number of concurrent requests. It is high, so that requests without a response do not block the others. */
export const CONNECTIONS = 96;
/** Longer than the request timeout of the API server. */
const TIMEOUT_MS = 70_000;

export function createPlainClient(plane: Pick<ControlPlane, 'server' | 'ca' | 'token'>): Client {
  const pool = new Pool(plane.server, {
    connections: CONNECTIONS,
    allowH2: false,
    // The certificate contains the machine's name, not the address.
    connect: { ca: plane.ca, checkServerIdentity: () => undefined },
    headersTimeout: TIMEOUT_MS,
    bodyTimeout: TIMEOUT_MS,
  });
  return {
    ask: async (method, path, body) => {
      try {
        const response = await pool.request({
          method,
          path,
          headers: {
            authorization: `Bearer ${plane.token('admin')}`,
            accept: 'application/json',
            ...(body === undefined
              ? {}
              : { 'content-type': method === 'PATCH' ? 'application/merge-patch+json' : 'application/json' }),
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        return toHeard(response.statusCode, await response.body.text());
      } catch (error) {
        return { code: undefined, message: error instanceof Error ? error.message : String(error) };
      }
    },
    stop: () => pool.destroy(),
  };
}

interface Status {
  readonly message?: string;
  readonly details?: { readonly name?: string };
}

function toHeard(code: number, text: string): Heard {
  try {
    const body = JSON.parse(text) as Partial<Machine> & Status; // the body is an object or a Status
    // An API server that has just started also returns 404 for kinds that it does not serve yet.
    if (code === 404 && body.details?.name === undefined)
      return { code: undefined, message: 'not served yet' };
    return { code, message: body.message ?? '', object: body };
  } catch {
    return { code: code === 404 ? undefined : code, message: text.slice(0, 500) };
  }
}

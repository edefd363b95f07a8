/** Requests to the API server as any user, without retries: each answer belongs to one request. */
import { Pool } from 'undici';

import type { ControlPlane } from '../support/control-plane.ts';
import type { Json } from './objects.ts';

export interface Request {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
  readonly contentType?: string;
  /** The user to impersonate. Default: the administrator. */
  readonly as?: string;
}

export interface Answer {
  /** 0: no answer. */
  readonly code: number;
  readonly body: Json;
}

export interface PlainClient {
  readonly ask: (request: Request) => Promise<Answer>;
  readonly stop: () => Promise<void>;
}

/** Longer than the request timeout of the API server, in milliseconds. */
const TIMEOUT_MS = 70_000;

export function createPlainClient(
  plane: Pick<ControlPlane, 'server' | 'ca' | 'token'>,
  connections: number,
): PlainClient {
  const pool = new Pool(plane.server, {
    connections,
    allowH2: false,
    // The certificate contains the machine's name, not the address.
    connect: { ca: plane.ca, checkServerIdentity: () => undefined },
    headersTimeout: TIMEOUT_MS,
    bodyTimeout: TIMEOUT_MS,
  });
  return {
    ask: async ({ method, path, body, contentType = 'application/json', as }) => {
      try {
        const response = await pool.request({
          method,
          path,
          headers: {
            authorization: `Bearer ${plane.token('admin')}`,
            accept: 'application/json',
            ...(as === undefined ? {} : { 'impersonate-user': as }),
            ...(body === undefined ? {} : { 'content-type': contentType }),
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        return { code: response.statusCode, body: parsed(await response.body.text()) };
      } catch (error) {
        return { code: 0, body: { message: error instanceof Error ? error.message : String(error) } };
      }
    },
    stop: () => pool.destroy(),
  };
}

function parsed(text: string): Json {
  try {
    return JSON.parse(text) as Json; // an object or a Status
  } catch {
    return { message: text.slice(0, 500) };
  }
}

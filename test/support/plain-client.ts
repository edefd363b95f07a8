/** Requests to the API server as any user, without retries: each answer belongs to exactly one request. */
import { Pool } from 'undici';

import type { ControlPlane } from './control-plane.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export interface PlainRequest {
  readonly method: Method;
  readonly path: string;
  readonly body?: unknown;
  readonly contentType?: string;
  /** The user to impersonate. Default: the administrator. */
  readonly as?: string;
}

export interface PlainAnswer {
  /** 0: no answer; the text says why. */
  readonly code: number;
  readonly text: string;
  /** The text as JSON; otherwise an object with the text as its message. */
  readonly body: Readonly<Record<string, unknown>>;
}

export type PlainClient = ReturnType<typeof createPlainClient>;

/** Longer than the request timeout of the API server, in milliseconds. */
const TIMEOUT_MS = 70_000;

export function createPlainClient(plane: Pick<ControlPlane, 'server' | 'ca' | 'token'>, connections: number) {
  const pool = new Pool(plane.server, {
    connections,
    allowH2: false,
    // The certificate contains the machine's name, not the address.
    connect: { ca: plane.ca, checkServerIdentity: () => undefined },
    headersTimeout: TIMEOUT_MS,
    bodyTimeout: TIMEOUT_MS,
  });
  return {
    ask: async (asked: PlainRequest): Promise<PlainAnswer> => {
      const { method, path, body, contentType = 'application/json', as } = asked;
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
        return answer(response.statusCode, await response.body.text());
      } catch (error) {
        return answer(0, error instanceof Error ? error.message : String(error));
      }
    },
    stop: () => pool.destroy(),
  };
}

function answer(code: number, text: string): PlainAnswer {
  try {
    return { code, text, body: JSON.parse(text) as PlainAnswer['body'] }; // an object or a Status
  } catch {
    return { code, text, body: { message: text.slice(0, 500) } };
  }
}

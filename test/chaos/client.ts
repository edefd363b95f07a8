/** A client without retries: each result belongs to exactly one request. */
import type { ControlPlane } from '../support/control-plane.ts';
import { createPlainClient as createTextClient, type Method } from '../support/plain-client.ts';
import type { Machine } from './kinds.ts';
import type { Heard } from './oracle.ts';

export interface Client {
  readonly ask: (method: Method, path: string, body?: object) => Promise<Heard>;
  readonly stop: () => Promise<void>;
}

/** The number of concurrent requests. It is high, so that requests without a response do not block the others. */
export const CONNECTIONS = 96;

export function createPlainClient(plane: Pick<ControlPlane, 'server' | 'ca' | 'token'>): Client {
  const client = createTextClient(plane, CONNECTIONS);
  return {
    ask: async (method, path, body) => {
      const contentType = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
      const { code, text } = await client.ask({ method, path, body, contentType });
      return code === 0 ? { code: undefined, message: text } : toHeard(code, text);
    },
    stop: client.stop,
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

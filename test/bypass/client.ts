/** Requests to the API server as any user, without retries, with parsed answers. */
import type { ControlPlane } from '../support/control-plane.ts';
import { createPlainClient as createTextClient, type PlainRequest } from '../support/plain-client.ts';
import type { Json } from './objects.ts';

export type Request = PlainRequest;

export interface Answer {
  /** 0: no answer. */
  readonly code: number;
  readonly body: Json;
}

export interface PlainClient {
  readonly ask: (request: Request) => Promise<Answer>;
  readonly stop: () => Promise<void>;
}

export function createPlainClient(
  plane: Pick<ControlPlane, 'server' | 'ca' | 'token'>,
  connections: number,
): PlainClient {
  const client = createTextClient(plane, connections);
  return {
    ask: async (request) => {
      const { code, text } = await client.ask(request);
      return { code, body: parsed(text) };
    },
    stop: client.stop,
  };
}

function parsed(text: string): Json {
  try {
    return JSON.parse(text) as Json; // an object or a Status
  } catch {
    return { message: text.slice(0, 500) };
  }
}

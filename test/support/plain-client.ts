/** Requests to the API server as any user, without retries: each answer belongs to exactly one request. */
import type { ControlPlane } from './control-plane.ts';
import { createTransport } from './transport.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export interface PlainRequest {
  readonly method: Method;
  readonly path: string;
  readonly body?: unknown;
  readonly contentType?: string;
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

export function createPlainClient(
  { server, ca, token }: Pick<ControlPlane, 'server' | 'ca' | 'token'>,
  connections: number,
) {
  const { call, stop } = createTransport(server, ca, connections);
  return {
    ask: async (asked: PlainRequest): Promise<PlainAnswer> => {
      const { method, path, body, contentType = 'application/json', as } = asked;
      const headers = {
        authorization: `Bearer ${token('admin')}`,
        accept: 'application/json',
        ...(as === undefined ? {} : { 'impersonate-user': as }),
        ...(body === undefined ? {} : { 'content-type': contentType }),
      };
      try {
        const { status, text } = await call({ method, path, headers, body: JSON.stringify(body) });
        return answer(status, text);
      } catch (error) {
        return answer(0, error instanceof Error ? error.message : String(error));
      }
    },
    stop,
  };
}

function answer(code: number, text: string): PlainAnswer {
  try {
    return { code, text, body: JSON.parse(text) as PlainAnswer['body'] }; // an object or a Status
  } catch {
    return { code, text, body: { message: text.slice(0, 500) } };
  }
}

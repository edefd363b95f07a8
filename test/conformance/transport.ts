/** HTTPS to the API under test, as directly as possible: no retries, no decoding of kinds. */
import { Agent, request, type RequestOptions } from 'node:https';
import type { IncomingMessage } from 'node:http';

export interface Call {
  readonly method: string;
  /** Starts with a slash; may include a query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body: string | undefined;
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly text: string;
}

export interface Transport {
  readonly call: (call: Call) => Promise<RawAnswer>;
  readonly close: () => void;
}

/** Longer than the longest wait of the API server itself (30 s for webhooks). */
const PATIENCE_MS = 40_000;

export function createTransport(server: string, ca: string): Transport {
  const agent = new Agent({ keepAlive: true });
  const open = (call: Call): Promise<IncomingMessage> =>
    new Promise((resolve, reject) => {
      const options: RequestOptions = {
        method: call.method,
        headers: {
          ...call.headers,
          ...(call.body === undefined ? {} : { 'content-length': size(call.body) }),
        },
        ca,
        agent,
        timeout: PATIENCE_MS,
        checkServerIdentity: () => undefined, // the self-signed certificate names the machine, not the address
      };
      const sent = request(`${server}${call.path}`, options, resolve);
      sent.on('timeout', () => sent.destroy(new Error(`${call.method} ${call.path}: no answer`)));
      sent.on('error', reject);
      sent.end(call.body);
    });
  return {
    call: async (call) => {
      const response = await open(call);
      const headers: Record<string, readonly string[]> = {};
      for (const [name, values] of Object.entries(response.headersDistinct)) headers[name] = values ?? [];
      return { status: response.statusCode ?? 0, headers, text: await textOf(response) };
    },
    close: () => {
      agent.destroy();
    },
  };
}

const size = (text: string): string => String(Buffer.byteLength(text));

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer); // no encoding is set, so chunks are bytes
  return Buffer.concat(chunks).toString('utf8');
}

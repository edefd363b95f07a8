/** HTTPS to an API server, as directly as possible: no retries, no decoding of kinds. */
import { Pool } from 'undici';

interface Call {
  readonly method: string;
  /** Starts with a slash; may include a query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body?: string | undefined;
}

export type Transport = ReturnType<typeof createTransport>;
export type RawAnswer = Awaited<ReturnType<Transport['call']>>;

/** Longer than the longest wait of the API server itself, in milliseconds. */
const PATIENCE_MS = 70_000;

/** @param connections how many at most. Default: no limit */
export function createTransport(server: string, ca: string, connections: number | null = null) {
  const pool = new Pool(server, {
    connections,
    allowH2: false, // over HTTP/2, undici joins repeated headers with commas
    connect: { ca, checkServerIdentity: () => undefined }, // the certificate names the machine, not the address
    headersTimeout: PATIENCE_MS,
    bodyTimeout: PATIENCE_MS,
  });
  return {
    call: async ({ method, path, headers, body }: Call) => {
      const answer = await pool.request({ method, path, headers, ...(body === undefined ? {} : { body }) });
      const all: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
        Object.entries(answer.headers).map(([name, values = []]) => [name, [values].flat()]),
      );
      return { status: answer.statusCode, headers: all, text: await answer.body.text() };
    },
    stop: () => pool.destroy(),
  };
}

/** The texts of `299 - "…"`, which the API server writes in UTF-8. */
export const warningsIn = ({ headers: { warning = [] } }: RawAnswer): readonly string[] =>
  warning.map((line) => Buffer.from(line.replace(/^299 - /, ''), 'latin1').toString()).map(unquoted);

const unquoted = (text: string): string => JSON.parse(text) as string;

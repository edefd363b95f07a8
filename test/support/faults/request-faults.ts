/** Faults of a single request to the API server, and of its response. */
import type { IncomingMessage } from 'node:http';
import { text as textOf } from 'node:stream/consumers';

import { answer, pass, type Exchange, type Write } from '../api-proxy-exchange.ts';

/** `applied`: whether the API server carries the request out. */
export type Fault =
  /** The client gets this response, instead of the request or after the API server has carried it out. */
  | {
      readonly kind: 'answer';
      readonly code: number;
      readonly applied: boolean;
      readonly retryAfterSeconds?: number;
    }
  /** The connection breaks. */
  | { readonly kind: 'reset'; readonly applied: boolean }
  /**
   * The proxy holds the request, or its response, until a release. It drops it if its sender dies or hangs up first.
   */
  | { readonly kind: 'hold'; readonly applied: boolean }
  /**
   * The proxy replaces the body of the response with the result of `change`, e.g. a list with another resourceVersion.
   */
  | { readonly kind: 'rewrite'; readonly change: (body: string) => string };

/** One fault that waits for its write. */
export interface Interception {
  /** The intercepted write. Resolves after the API server has carried it out, if the fault lets it. */
  readonly met: Promise<Write>;
  readonly isMet: () => boolean;
  /** Releases a held request or response. */
  readonly release: () => void;
  /** The API server's status code for the write; undefined while the write has not been sent. */
  readonly upstreamCode: () => number | undefined;
}

/** The proxy's side of an interception. */
export interface Pending {
  readonly matches: (write: Write) => boolean;
  readonly fault: Fault;
  readonly onMet: (write: Write) => void;
  readonly released: Promise<unknown>;
  readonly onUpstream: (code: number | undefined) => void;
}

export type Forward = (exchange: Exchange) => Promise<IncomingMessage>;

export function createInterception(matches: Pending['matches'], fault: Fault) {
  const met = Promise.withResolvers<Write>();
  const released = Promise.withResolvers<undefined>();
  let isMet = false;
  let code: number | undefined;
  const interception: Interception = {
    met: met.promise,
    isMet: () => isMet,
    release: () => {
      released.resolve(undefined);
    },
    upstreamCode: () => code,
  };
  const mine: Pending = {
    matches,
    fault,
    onMet: (write) => {
      isMet = true;
      met.resolve(write);
    },
    released: released.promise,
    onUpstream: (said) => {
      code = said;
    },
  };
  return { interception, mine };
}

export interface Harm {
  readonly fault: Fault;
  /** Ends a `hold`. */
  readonly released: Promise<unknown>;
  /**
   * Called after the API server has carried the request out, if the fault lets it, and before its sender learns
   * anything.
   */
  readonly onMet?: () => void;
  /** Called with the status code of the API server. */
  readonly onUpstream?: (code: number | undefined) => void;
}

export async function harm(
  { fault, released, onMet = () => undefined, onUpstream = () => undefined }: Harm,
  exchange: Exchange,
  forward: Forward,
): Promise<void> {
  const { request, response } = exchange;
  const carryOut = async () => {
    const result = await forward(exchange);
    onUpstream(result.statusCode);
    return result;
  };
  const applied = 'applied' in fault && fault.applied ? await carryOut() : undefined;
  onMet();
  switch (fault.kind) {
    case 'answer':
      if (applied !== undefined) await textOf(applied);
      answer(response, fault.code, statusOf(fault.code), fault.retryAfterSeconds);
      return;
    case 'reset':
      if (applied !== undefined) await textOf(applied);
      request.socket.destroy();
      return;
    case 'hold':
      if (await hungUp(exchange, released)) applied?.destroy();
      else await pass(applied ?? (await carryOut()), response);
      return;
    case 'rewrite': {
      const result = await carryOut();
      const body = fault.change(await textOf(result));
      response.writeHead(result.statusCode ?? 502, { 'content-type': 'application/json' });
      response.end(body);
    }
  }
}

/** Whether the sender left before the release. */
async function hungUp({ response }: Exchange, released: Promise<unknown>): Promise<boolean> {
  if (response.destroyed) return true;
  const gone = new Promise<true>((resolve) => {
    response.once('close', () => {
      resolve(true);
    });
  });
  return await Promise.race([released.then(() => false), gone]);
}

const REASONS: Readonly<Record<number, string>> = {
  403: 'Forbidden',
  409: 'Conflict',
  410: 'Expired',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
  504: 'Timeout',
};

export const statusOf = (code: number) => ({
  kind: 'Status',
  apiVersion: 'v1',
  metadata: {},
  status: 'Failure',
  message: `the test answers ${code}`,
  reason: REASONS[code] ?? 'Unknown',
  code,
});

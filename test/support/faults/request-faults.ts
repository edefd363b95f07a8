/** Faults of a single request to the API server, and of its response. */
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { text as textOf } from 'node:stream/consumers';

import { answer, pass, type Exchange, type Write } from '../api-proxy-exchange.ts';

interface Response {
  readonly code: number;
  readonly retryAfterSeconds?: number;
}

/** `applied`: whether the API server carries the request out. */
export type Fault =
  /** The client gets this response, instead of the request or after the API server has carried it out. */
  | ({ readonly kind: 'answer'; readonly applied: boolean } & Response)
  | { readonly kind: 'reset'; readonly applied: boolean }
  /** The proxy holds the request or its response until a release, and drops it if its sender hangs up first. */
  | { readonly kind: 'hold'; readonly applied: boolean }
  /** The proxy replaces the response's body, for example with another resourceVersion. */
  | { readonly kind: 'rewrite'; readonly change: (body: string) => string };

export type Pending = ReturnType<typeof createInterception>['mine'];

export type Forward = (exchange: Exchange) => Promise<IncomingMessage>;

export function createInterception(matches: (write: Write) => boolean, fault: Fault) {
  const met = Promise.withResolvers<Write>();
  const released = Promise.withResolvers<undefined>();
  let isMet = false;
  let code: number | undefined;
  const interception = {
    /** The intercepted write. Resolves after the API server has carried it out, if the fault lets it. */
    met: met.promise,
    isMet: () => isMet,
    upstreamCode: () => code,
    release: () => released.resolve(undefined),
  };
  const mine = {
    matches,
    fault,
    onMet: (write: Write) => {
      isMet = true;
      met.resolve(write);
    },
    released: released.promise,
    onUpstream: (said: number | undefined) => {
      code = said;
    },
  };
  return { interception, mine };
}

export interface Harm {
  readonly fault: Fault;
  readonly released: Promise<unknown>;
  /** Called before the sender learns anything. */
  readonly onMet?: () => void;
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

async function hungUp({ response }: Exchange, released: Promise<unknown>): Promise<boolean> {
  if (response.destroyed) return true;
  const gone = once(response, 'close').then(() => true);
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
  code,
  message: `the test answers ${code}`,
  reason: REASONS[code] ?? 'Unknown',
});

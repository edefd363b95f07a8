/** What goes back to the API server: JSON, whatever happens. */
import type { Server } from 'node:https';
import type { FastifyReply, RouteGenericInterface } from 'fastify';

export type Reply = FastifyReply<RouteGenericInterface, Server>;

export interface Answer {
  /** An HTTP status. */
  readonly code: number;
  /** JSON. */
  readonly body: string;
  /** Has the API server ask again within the webhook's own timeout (k8s.io/client-go rest/with_retry.go). */
  readonly retryAfterSeconds?: number;
}

/** @throws TypeError when a bigint stands in `review`, which no field of an answer is. */
export function okay(review: object): Answer {
  return { code: 200, body: JSON.stringify(review) };
}

/** No review, but a Status of the API, for people to read. */
export function failure(code: number, message: string): Answer {
  const status = { apiVersion: 'v1', kind: 'Status', status: 'Failure', code, message };
  return { code, body: JSON.stringify(status) };
}

export function retry(message: string, retryAfterSeconds: number): Answer {
  return { ...failure(503, message), retryAfterSeconds };
}

/** The sooner they come back the better; whole seconds are all that the header can say. */
const BUSY_SECONDS = 1;

export function busy(message: string): Answer {
  return { ...failure(429, message), retryAfterSeconds: BUSY_SECONDS };
}

/** What went wrong inside is for the log; the API server's failurePolicy judges the rest. */
export const INTERNAL_ERROR = failure(500, 'internal error; the log of Gatehouse says more');

/**
 * To a request that has been read to its end, without the stages that Fastify has for answers: they take as long as all else that
 * an answer costs.
 *
 * @param isLast whether no other request should come over this connection
 */
export function sendAtOnce(reply: Reply, { code, body, retryAfterSeconds }: Answer, isLast: boolean): void {
  reply.hijack();
  reply.raw.writeHead(code, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...(retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }),
    ...(isLast ? { connection: 'close' } : {}),
  });
  reply.raw.end(body);
}

export function send(reply: Reply, { code, body, retryAfterSeconds }: Answer): Reply {
  if (retryAfterSeconds !== undefined) void reply.header('retry-after', String(retryAfterSeconds));
  return reply.code(code).type('application/json').send(body);
}

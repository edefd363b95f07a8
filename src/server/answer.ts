/** What goes back to the API server: JSON, whatever happens. */
import type { Server } from 'node:https';
import type { FastifyReply, RouteGenericInterface } from 'fastify';
import { Readable } from 'node:stream';

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

/**
 * Aborts when the time to answer is over, or when the API server has hung up.
 * @param timeout as it stands in the query, e.g. `10s`
 */
export function answerSignal(timeout: string | undefined, reply: Reply): AbortSignal {
  const controller = new AbortController();
  abortInTime(controller, timeout, reply);
  return controller.signal;
}

/** Has `controller` abort as the signal of {@link answerSignal} does. */
export function abortInTime(controller: AbortController, timeout: string | undefined, reply: Reply): void {
  const timer = setTimeout(() => {
    controller.abort(new Error('the time to answer is over'));
  }, answerWithin(timeout));
  reply.raw.once('close', () => {
    clearTimeout(timer);
    if (!reply.raw.writableFinished) controller.abort(new Error('the API server hung up'));
  });
}

/** So much is written at a time. */
const CHUNK_CHARACTERS = 256 * 1024;

/**
 * Sends JSON that is there in many texts, in order. What is short goes as one; a long one as a stream, because to join it would
 * take its size in memory twice more.
 */
export function sendInChunks(reply: Reply, texts: readonly string[]): Reply {
  void reply.code(200).type('application/json; charset=utf-8');
  if (texts.reduce((sum, { length }) => sum + length, 0) <= CHUNK_CHARACTERS)
    return reply.send(texts.join(''));
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  return reply.header('content-length', bytes).send(Readable.from(chunksOf(texts), { objectMode: false }));
}

function* chunksOf(texts: readonly string[]): Generator<Buffer> {
  let chunk: string[] = [];
  let characters = 0;
  for (const text of texts) {
    chunk.push(text);
    characters += text.length;
    if (characters < CHUNK_CHARACTERS) continue;
    yield Buffer.from(chunk.join(''));
    chunk = [];
    characters = 0;
  }
  if (chunk.length > 0) yield Buffer.from(chunk.join(''));
}

/**
 * How long an answer may take. The API server says how long it waits in `?timeout=`, rounded up to a whole second
 * (k8s.io/apiserver pkg/util/webhook/client.go), so up to a second of what it says may not exist.
 */
const ROUNDING_MS = 1_000;
const FALLBACK_MS = 10_000;
/** The longest `timeoutSeconds` of a webhook is 30. */
const LONGEST_MS = 30_000;

/**
 * The time to answer in, in whole milliseconds. A `timeout` that cannot be read counts as the API server's default of 10 s, one
 * that no API server sends as the longest that one does.
 */
export function answerWithin(timeout: string | undefined): number {
  const seconds = /^(\d+(?:\.\d+)?)s$/.exec(timeout ?? '')?.[1];
  const waitsMs = seconds === undefined ? FALLBACK_MS : Math.min(Number(seconds) * 1_000, LONGEST_MS);
  // Of a single second half is left: late is as bad as never, but so is giving up at once.
  return Math.floor(Math.max(waitsMs - ROUNDING_MS, waitsMs / 2));
}

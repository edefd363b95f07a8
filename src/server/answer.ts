/** Responses to the API server, always JSON. */
import type { IncomingMessage } from 'node:http';
import type { Server } from 'node:https';
import { Readable } from 'node:stream';
import type { FastifyReply, RouteGenericInterface } from 'fastify';

import { type Decision, RETRY_SECONDS } from '../admission/review/decision.ts';
import type { AdmissionRequest } from '../admission/review/request.ts';
import type { Log } from '../log.ts';
import type { Outcome } from './metrics/metrics.ts';

export type Reply = FastifyReply<RouteGenericInterface, Server>;

export type IsLast = (request: IncomingMessage) => boolean;

export interface Answer {
  readonly code: number;
  readonly body: string;
  /** The API server retries after this time, within the webhook's timeout (k8s.io/client-go rest/with_retry.go). */
  readonly retryAfterSeconds?: number;
  /** One word for traces: why there is no decision. Default: an HTTP status of 500 and above. */
  readonly failure?: string;
}

export function failure(code: number, message: string): Answer {
  const status = { apiVersion: 'v1', kind: 'Status', status: 'Failure', code, message };
  return { code, body: JSON.stringify(status) };
}

const later =
  (code: number) =>
  (message: string): Answer => ({ ...failure(code, message), retryAfterSeconds: RETRY_SECONDS });
export const retry = later(503);
export const busy = later(429);

export const INTERNAL_ERROR = failure(500, 'internal error; the log of Gatehouse says more');

/**
 * Bypasses Fastify's reply lifecycle, which costs as much as the rest of the response. Sends nothing if an answer has left.
 * While the request still arrives, the connection stays open: a client whose write fails loses the answer.
 */
export function sendAtOnce(reply: Reply, { code, body, retryAfterSeconds }: Answer, isLast: boolean): void {
  if (reply.raw.headersSent) return;
  reply.hijack();
  reply.raw.writeHead(code, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...(retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }),
    ...(isLast && reply.request.raw.complete ? { connection: 'close' } : {}),
  });
  reply.raw.end(body);
}

export function send(reply: Reply, { code, body, retryAfterSeconds }: Answer): Reply {
  if (retryAfterSeconds !== undefined) void reply.header('retry-after', String(retryAfterSeconds));
  return reply.code(code).type('application/json').send(body);
}

/** Aborts when the response is due by the query parameter `timeout`, or when the API server closes the connection. */
export function abortInTime(
  controller: AbortController,
  timeout: string | undefined,
  reply: Reply,
  since = performance.now(),
): void {
  const timer = setTimeout(
    () => controller.abort(new Error('the time to answer is over')),
    answerWithin(timeout) - (performance.now() - since),
  );
  reply.raw.once('late', () => controller.abort(new Error('the time to answer is over')));
  reply.raw.once('close', () => {
    clearTimeout(timer);
    if (!reply.raw.writableFinished) controller.abort(new Error('the API server hung up'));
  });
}

const CHUNK_CHARACTERS = 256 * 1024;

/** A short response is joined; a long one is streamed, because joining would need twice its size. */
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

/** The API server rounds `?timeout=` up to a whole second (k8s.io/apiserver pkg/util/webhook/client.go). */
const ROUNDING_MS = 1_000;
const DEFAULT_TIMEOUT_MS = 10_000;
const MAX_TIMEOUT_MS = 30_000;

export function answerWithin(timeout: string | undefined): number {
  const seconds = /^(\d+(?:\.\d+)?)s$/.exec(timeout ?? '')?.[1];
  const waitsMs =
    seconds === undefined ? DEFAULT_TIMEOUT_MS : Math.min(Number(seconds) * 1_000, MAX_TIMEOUT_MS);
  // Keep at least half of a very short timeout: without any time, the review fails immediately.
  return Math.floor(Math.max(waitsMs - ROUNDING_MS, waitsMs / 2));
}

/** Without `debug`, routine reviews are not logged: there is one for every write to the cluster. */
export type ReviewLog = Omit<Log, 'debug'> & { readonly debug?: Log['debug'] | undefined };

export interface PendingReview {
  readonly webhook: 'mutate' | 'validate';
  readonly entry: string;
  readonly request: AdmissionRequest;
  readonly started: number;
}

export function toLogFields(
  { webhook, entry, request }: PendingReview,
  outcome: Outcome,
  seconds: number,
): object {
  const { uid, operation, resource, subResource, namespace, name, userInfo, dryRun } = request;
  const fields = {
    webhook,
    entry,
    uid,
    operation,
    resource: subResource === '' ? resource.resource : `${resource.resource}/${subResource}`,
    group: resource.group,
    namespace,
    name,
    user: userInfo.username,
    outcome,
    ms: Math.round(seconds * 1e6) / 1e3,
  };
  return dryRun ? { ...fields, dryRun } : fields;
}

export function isRoutine(decision: Decision): boolean {
  return (
    decision.kind === 'allow' &&
    decision.warnings.length === 0 &&
    Object.keys(decision.auditAnnotations).length === 0
  );
}

export const toDecisionFields = (review: PendingReview, decision: Decision, seconds: number): object => ({
  ...toLogFields(review, decision.kind, seconds),
  ...detailOf(decision),
});

function detailOf(decision: Decision): object {
  switch (decision.kind) {
    case 'allow': {
      const { patch, warnings, auditAnnotations } = decision;
      return {
        ...(patch.length > 0 ? { patched: patch.map(({ path }) => path) } : {}),
        ...(warnings.length > 0 ? { warnings } : {}),
        ...(Object.keys(auditAnnotations).length > 0 ? { audit: auditAnnotations } : {}),
      };
    }
    case 'deny':
      return { reason: decision.reason, message: decision.message };
    case 'retry':
      return { message: decision.message, ...(decision.cause === undefined ? {} : { err: decision.cause }) };
  }
}

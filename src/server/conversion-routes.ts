/** Conversions have separate limits: a failing conversion webhook breaks every read of a kind, without a failurePolicy. */
import type { Server } from 'node:https';
import type { FastifyInstance, FastifyPluginCallback, FastifyRequest } from 'fastify';

import { type AnsweredReview, answerReview } from '../admission/conversion/answer-review.ts';
import type { ConversionSubject, ConverterLookup } from '../admission/conversion/converter.ts';
import { groupResourceName } from '../json/kube-object.ts';
import { abortInTime, busy, type Reply, retry, type ReviewLog, send, sendInChunks } from './answer.ts';
import type { ConversionOutcome, Metrics } from './metrics/metrics.ts';
import type { ReviewBody } from '../admission/review/review.ts';
import { acceptBodies } from './limits/load-shedding.ts';
import { createFairShare, createTimeSlices } from './limits/turns.ts';
import { endAnswered, httpAttributes, type ServerTracing } from './tracing.ts';

export interface ConversionServing {
  readonly lookUp: (subject: ConversionSubject) => ConverterLookup;
  readonly bodyLimit: number;
}

export interface ConversionRoutesOptions {
  readonly conversion: ConversionServing;
  readonly log: ReviewLog;
  readonly metrics: Pick<Metrics, 'conversion'>;
  readonly tracing?: ServerTracing | undefined;
}

interface ConvertRoute {
  Body: ReviewBody | undefined;
  Params: { definition?: string };
  Querystring: { timeout?: string };
}

type ConvertRequest = FastifyRequest<ConvertRoute, Server>;
type Convert = (request: ConvertRequest, reply: Reply) => Promise<Reply>;

/** About as long as a garbage collection. */
const SLICE_MS = 10;
const MAX_CONCURRENT = 64;
const SMALL_BODY_BYTES = 64 * 1024;
/** The API server waits 30 s (k8s.io/apiserver pkg/util/webhook), and some releases send no `?timeout=`. */
const DEFAULT_TIMEOUT = '30s';
/** A conversion uses about eight times its body, and the process needs a third of the container's memory for itself. */
const SHARE_OF_MEMORY = 1 / 12;

/** @param memory of the container in bytes; 0 if it has no limit */
export const affordable = (bodyLimit: number, memory = process.constrainedMemory()): number =>
  memory > 0 ? Math.min(bodyLimit, Math.floor(memory * SHARE_OF_MEMORY)) : bodyLimit;

export function addConversionRoutes(app: FastifyInstance<Server>, options: ConversionRoutesOptions): void {
  const { conversion, tracing } = options;
  const { lookUp } = conversion;
  const bodyLimit = affordable(conversion.bodyLimit);
  const breathe = createTimeSlices(SLICE_MS);
  const onRequest = refuseTooMuch(bodyLimit);
  const convert: Convert = async (request, reply) => {
    const started = performance.now();
    const { definition } = request.params;
    const controller = new AbortController();
    abortInTime(controller, request.query.timeout ?? DEFAULT_TIMEOUT, reply);
    const { bytes, isComplete } = request.body ?? { bytes: Buffer.alloc(0), isComplete: true };
    const text = bytes.toString('utf8');
    const review = { text, limit: isComplete ? undefined : bodyLimit };
    const answered = await answerReview(review, definition, lookUp, breathe, controller.signal);
    report(answered, (performance.now() - started) / 1_000, definition, options);
    return answered.kind === 'unready'
      ? send(reply, retry(answered.message))
      : sendInChunks(reply, answered.texts);
  };
  const routes: FastifyPluginCallback<object, Server> = (scope, _options, done) => {
    scope.removeAllContentTypeParsers();
    acceptBodies(scope, bodyLimit);
    const handle = tracing === undefined ? convert : traced(convert, tracing);
    for (const path of ['/convert', '/convert/:definition'])
      scope.post<ConvertRoute>(path, { onRequest }, handle);
    done();
  };
  void app.register(routes);
}

/** Runs before the body is read. On 429 with Retry-After the API server retries, up to ten times. */
function refuseTooMuch(bodyLimit: number) {
  const conversions = createFairShare(MAX_CONCURRENT);
  const bytes = createFairShare(affordable(2 * bodyLimit));
  return (request: ConvertRequest, reply: Reply, done: () => void): void => {
    const who = request.params.definition ?? '';
    const length = Math.min(Number(request.headers['content-length'] ?? bodyLimit), bodyLimit);
    const isLarge = length > SMALL_BODY_BYTES;
    if (conversions.take(who, 1) !== undefined) {
      void send(reply, busy('this replica has reached its limit of concurrent conversions: retry later'));
      return;
    }
    if (isLarge && bytes.take(who, length) !== undefined) {
      conversions.giveBack(who, 1);
      void send(reply, busy('this replica lacks memory for another large list: retry later'));
      return;
    }
    reply.raw.once('close', () => {
      conversions.giveBack(who, 1);
      if (isLarge) bytes.giveBack(who, length);
    });
    done();
  };
}

function traced(convert: Convert, tracing: ServerTracing): Convert {
  return async (request, reply) => {
    const { definition } = request.params;
    const name = definition === undefined ? 'convert' : `convert ${definition}`;
    const span = tracing.server(name, request.headers, httpAttributes(request.routeOptions.url ?? ''));
    let status = 500;
    try {
      await span.run(() => convert(request, reply));
      status = reply.statusCode;
    } finally {
      endAnswered(span, status);
    }
    return reply;
  };
}

function report(
  answered: AnsweredReview,
  seconds: number,
  definition: string | undefined,
  { log, metrics, tracing }: ConversionRoutesOptions,
): void {
  const measure = (crd: string, outcome: ConversionOutcome, objects: number): void => {
    tracing?.note({ 'gatehouse.crd': crd, 'gatehouse.outcome': outcome, 'gatehouse.objects': objects });
    metrics.conversion({ crd, outcome }, seconds, objects);
  };
  if (answered.kind === 'unready') {
    measure('', 'unready', 0);
    log.warn({ definition, message: answered.message }, 'conversion: cannot tell yet');
    return;
  }
  const { uid, converter, to, objects, failure, cause } = answered.report;
  const crd = converter === undefined ? '' : groupResourceName(converter.target);
  measure(crd, failure === undefined ? 'converted' : cause === undefined ? 'failed' : 'error', objects);
  const fields = { uid, crd, converter: converter?.name, to, objects, ms: Math.round(seconds * 1e6) / 1e3 };
  if (failure === undefined) log.debug?.(fields, 'conversion');
  else if (cause === undefined) log.warn({ ...fields, failure }, 'conversion failed');
  else log.error({ ...fields, err: cause }, 'conversion failed');
}

/** The HTTPS listener that the API server talks to. */
import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify';

import { refuseConversion } from '../admission/conversion-review.ts';
import { parseConversionReview } from '../admission/conversion-review.ts';
import type { Decision } from '../admission/decision.ts';
import { parseJson, stringifyJson } from '../admission/json.ts';
import type { AdmissionRequest } from '../admission/request.ts';
import { InvalidReview, parseReview, toMutatingReview, toValidatingReview } from '../admission/review.ts';
import { answerWithin } from './deadline.ts';
import type { Log } from './log.ts';
import type { Metrics, Outcome } from './metrics.ts';
import type { ServingCertificate } from './serving-certificate.ts';

export interface WebhookDeps {
  /** Decide for the webhook entry `entry` (the last segment of the path). */
  readonly mutate: (entry: string, request: AdmissionRequest) => Decision;
  readonly validate: (entry: string, request: AdmissionRequest, signal: AbortSignal) => Promise<Decision>;
  readonly draining: () => boolean;
  readonly log: Log;
  readonly metrics: Pick<Metrics, 'admission' | 'rejectedRequest'>;
}

/** A review carries the object twice, as it was and as it will be; the API server takes writes of up to 3 MiB. */
const BODY_LIMIT_BYTES = 8 * 1024 * 1024;

/** The API server keeps idle connections for 90 s and does not repeat a POST that meets a closing one: we close later. */
const KEEP_ALIVE_MS = 120_000;

/** The longest `timeoutSeconds` of a webhook is 30: a request that is not here by then has no one waiting for it. */
const REQUEST_MS = 30_000;
const HEADERS_MS = 10_000;

type Webhook = 'mutate' | 'validate';

interface ReviewRoute {
  Params: { entry: string };
  Querystring: { timeout?: string };
}

/** Wires the routes and listens to nothing: tests inject requests, `serve` calls `listen`. */
export function buildWebhookServer(certificate: ServingCertificate, deps: WebhookDeps): FastifyInstance {
  const app = Fastify({
    logger: false,
    https: {
      cert: certificate.chain,
      key: certificate.key,
      minVersion: 'TLSv1.2',
      handshakeTimeout: HEADERS_MS,
      headersTimeout: HEADERS_MS,
      connectionsCheckingInterval: 1_000,
    },
    bodyLimit: BODY_LIMIT_BYTES,
    keepAliveTimeout: KEEP_ALIVE_MS,
    requestTimeout: REQUEST_MS,
    return503OnClosing: false, // a request that still reaches us gets its verdict
    forceCloseConnections: 'idle',
  }) as unknown as FastifyInstance;

  readBodiesOurselves(app);
  app.addHook('onSend', async (_request, reply) => {
    if (deps.draining()) void reply.header('connection', 'close');
  });
  app.setErrorHandler((error: FastifyError, request, reply) => sendError(error, request, reply, deps));
  app.setNotFoundHandler((request, reply) =>
    sendStatus(reply, deps, 404, `there is no ${request.method} ${pathOf(request)} here`),
  );

  app.post<ReviewRoute>('/mutate/:entry', (request, reply) => review('mutate', request, reply, deps));
  app.post<ReviewRoute>('/validate/:entry', (request, reply) => review('validate', request, reply, deps));
  app.post('/convert', (request, reply) =>
    reply.send(stringifyJson(refuseConversion(parseConversionReview(request.body)))),
  );
  return app;
}

/**
 * Fastify's own JSON parser refuses objects with a key `__proto__`, which is a legal key of a ConfigMap: under
 * `failurePolicy: Ignore` that would be a way around every policy.
 */
function readBodiesOurselves(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) => {
    try {
      done(null, parseJson(String(body)));
    } catch (error) {
      done(
        new InvalidReview(`the body is not JSON: ${error instanceof Error ? error.message : String(error)}`),
      );
    }
  });
  app.addHook('onSend', async (_request, reply) => {
    if (!reply.hasHeader('content-type')) void reply.type('application/json');
  });
}

async function review(
  webhook: Webhook,
  request: FastifyRequest<ReviewRoute>,
  reply: FastifyReply,
  deps: WebhookDeps,
): Promise<FastifyReply> {
  const started = performance.now();
  const { version, request: admission } = parseReview(request.body);
  const report = (outcome: Outcome, detail: object) => {
    const seconds = (performance.now() - started) / 1_000;
    deps.metrics.admission({ webhook, operation: admission.operation, outcome }, seconds);
    deps.log.info(
      { ...describe(webhook, request.params.entry, admission), outcome, ms: round(seconds), ...detail },
      'admission',
    );
  };
  try {
    const { entry } = request.params;
    const decision =
      webhook === 'mutate'
        ? deps.mutate(entry, admission)
        : await deps.validate(entry, admission, answerDeadline(request, reply));
    report(decision.kind, detailOf(decision));
    if (decision.kind === 'retry') return sendRetry(reply, decision.message, decision.afterSeconds);
    const answer = webhook === 'mutate' ? toMutatingReview : toValidatingReview;
    return await reply.type('application/json').send(stringifyJson(answer(version, admission, decision)));
  } catch (error) {
    report('error', { err: error });
    throw error;
  }
}

/** Aborts when the time to answer is over, or when the API server has hung up. */
function answerDeadline(request: FastifyRequest<ReviewRoute>, reply: FastifyReply): AbortSignal {
  const hungUp = new AbortController();
  reply.raw.once('close', () => {
    hungUp.abort(new Error('the API server hung up'));
  });
  return AbortSignal.any([AbortSignal.timeout(answerWithin(request.query.timeout)), hungUp.signal]);
}

function describe(webhook: Webhook, entry: string, request: AdmissionRequest): object {
  const { uid, operation, resource, subResource, namespace, name, userInfo, dryRun } = request;
  return {
    webhook,
    entry,
    uid,
    operation,
    resource: [resource.resource, subResource].filter((part) => part !== '').join('/'),
    group: resource.group,
    namespace,
    name,
    user: userInfo.username,
    ...(dryRun ? { dryRun } : {}),
  };
}

function detailOf(decision: Decision): object {
  switch (decision.kind) {
    case 'allow':
      return {
        ...(decision.patch.length > 0 ? { patched: decision.patch.map(({ path }) => path) } : {}),
        ...(Object.keys(decision.auditAnnotations).length > 0 ? { audit: decision.auditAnnotations } : {}),
      };
    case 'deny':
      return { reason: decision.reason, message: decision.message };
    case 'retry':
      return { message: decision.message };
  }
}

/** `Retry-After` has the API server ask again within the webhook's own timeout (k8s.io/client-go rest/with_retry.go). */
function sendRetry(reply: FastifyReply, message: string, afterSeconds: number): FastifyReply {
  return reply
    .code(503)
    .header('retry-after', String(afterSeconds))
    .type('application/json')
    .send(JSON.stringify(status(503, message)));
}

function sendError(
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
  deps: WebhookDeps,
): FastifyReply {
  const code = error instanceof InvalidReview ? 400 : (error.statusCode ?? 500);
  if (code < 500) return sendStatus(reply, deps, code, error.message);
  deps.log.error({ err: error, path: pathOf(request) }, 'could not answer');
  // What went wrong inside is for the log; the API server's failurePolicy judges the rest.
  return sendStatus(reply, deps, 500, 'internal error; the log of Gatehouse says more');
}

function sendStatus(reply: FastifyReply, deps: WebhookDeps, code: number, message: string): FastifyReply {
  deps.metrics.rejectedRequest(code);
  return reply
    .code(code)
    .type('application/json')
    .send(JSON.stringify(status(code, message)));
}

function status(code: number, message: string): object {
  return { apiVersion: 'v1', kind: 'Status', status: 'Failure', code, message };
}

const pathOf = (request: FastifyRequest): string => request.url.split('?', 1)[0]?.slice(0, 200) ?? '';
const round = (seconds: number): number => Math.round(seconds * 1e6) / 1e3;

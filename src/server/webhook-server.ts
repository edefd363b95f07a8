/** The HTTPS server that the API server talks to. */
import type { Server } from 'node:https';
import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyRequest,
  type RouteGenericInterface,
} from 'fastify';

import type { Decision } from '../admission/decision.ts';
import { HandlerFailure } from '../admission/handlers/failure.ts';
import { parseJson } from '../admission/json.ts';
import type { AdmissionRequest } from '../admission/request.ts';
import {
  InvalidReview,
  parseReview,
  toMutatingReview,
  toValidatingReview,
  type ReviewVersion,
} from '../admission/review.ts';
import { answerSignal } from './answer-signal.ts';
import { failure, INTERNAL_ERROR, okay, retry, send, type Answer, type Reply } from './answer.ts';
import { prepareClosing } from './closing.ts';
import { addConversionRoutes, type ConversionServing } from './conversion-routes.ts';
import { lingering } from './lingering.ts';
import type { Log } from './log.ts';
import type { Metrics, Outcome } from './metrics.ts';
import type { Pressure } from './pressure.ts';
import { refuseUnderPressure, toBusy } from './pressure-hook.ts';
import { secureOptions, type ServingCertificate } from './serving-certificate.ts';

export type WebhookServer = FastifyInstance<Server>;

/** At once where nothing has to be waited for. The signal aborts when the time to answer is over. */
type Decide = (entry: string, request: AdmissionRequest, signal: AbortSignal) => Decision | Promise<Decision>;

export interface WebhookDeps {
  /** Decide for the webhook entry `entry` (the last segment of the path). */
  readonly mutate: Decide;
  readonly validate: Decide;
  readonly draining: () => boolean;
  /** Of reviews; conversions have limits of their own. */
  readonly pressure: Pressure;
  readonly conversion: ConversionServing;
  readonly log: Log;
  readonly metrics: Pick<Metrics, 'admission' | 'rejectedRequest'>;
}

/** A review carries the object twice, as it was and as it will be; the API server takes writes of up to 3 MiB. */
const BODY_LIMIT_BYTES = 8 * 1024 * 1024;

/** How long clients may take, in milliseconds. */
export interface WebhookLimits {
  /** For a handshake. */
  readonly handshakeMs: number;
  /** For the first request to begin, and for each to arrive in whole. */
  readonly requestMs: number;
  /** Between two requests. */
  readonly idleMs: number;
  /** For what a client still sends when it has been answered already. */
  readonly lingerMs: number;
  /** For what is still to come when the server closes. */
  readonly closeMs: number;
}

export const WEBHOOK_LIMITS: WebhookLimits = {
  handshakeMs: 10_000,
  // The API server keeps idle connections for 90 s and does not repeat a POST that meets a closing one: we close later. That
  // holds for those that it has never used too, which Node cannot tell from those whose first request is slow to come.
  requestMs: 120_000,
  idleMs: 120_000,
  lingerMs: 5_000,
  // The longest `timeoutSeconds` of a webhook is 30: after that no one waits for an answer.
  closeMs: 30_000,
};

type Webhook = 'mutate' | 'validate';

interface ReviewRoute extends RouteGenericInterface {
  Params: { entry: string };
  Querystring: { timeout?: string };
}

type Request<Route extends RouteGenericInterface = RouteGenericInterface> = FastifyRequest<Route, Server>;

/** Wires the routes and listens to nothing: tests inject requests, `serve` calls `listen`. */
export function buildWebhookServer(
  certificate: ServingCertificate,
  deps: WebhookDeps,
  limits: WebhookLimits = WEBHOOK_LIMITS,
): WebhookServer {
  const app: WebhookServer = Fastify({
    logger: false,
    https: {
      ...secureOptions(certificate),
      handshakeTimeout: limits.handshakeMs,
      headersTimeout: limits.requestMs,
      connectionsCheckingInterval: Math.min(1_000, limits.requestMs),
    },
    bodyLimit: BODY_LIMIT_BYTES,
    keepAliveTimeout: limits.idleMs,
    requestTimeout: limits.requestMs,
    return503OnClosing: false, // a request that still reaches us gets its verdict
    forceCloseConnections: 'idle',
  });

  readBodiesOurselves(app);
  closeConnectionsAtTheEnd(app, deps, limits.closeMs);
  answerBeforeHangingUp(app, limits.lingerMs);
  const reject = (reply: Reply, code: number, message: string) => {
    deps.metrics.rejectedRequest(code);
    return send(reply, failure(code, message));
  };
  app.setNotFoundHandler((request, reply) =>
    reject(reply, 404, `there is no ${request.method} ${pathOf(request)} here`),
  );
  app.setErrorHandler((error: FastifyError, request, reply) => {
    const code = error instanceof InvalidReview ? 400 : (error.statusCode ?? 500);
    if (code < 500) return reject(reply, code, error.message);
    deps.log.error({ err: error, path: pathOf(request) }, 'could not answer');
    return send(reply, INTERNAL_ERROR);
  });

  for (const webhook of ['mutate', 'validate'] as const) {
    const onRequest = refuseUnderPressure(deps.pressure, BODY_LIMIT_BYTES);
    app.post<ReviewRoute>(`/${webhook}/:entry`, { onRequest }, async (request, reply) => {
      const { entry } = request.params;
      const busy = deps.pressure.enter(entry);
      if (busy !== undefined) return send(reply, toBusy(busy));
      try {
        return send(reply, await review(webhook, request, reply, deps));
      } finally {
        deps.pressure.leave(entry);
      }
    });
  }
  addConversionRoutes(app, deps.conversion);
  return app;
}

/**
 * Fastify's own JSON parser refuses objects with a key `__proto__`, which is a legal key of a ConfigMap: under
 * `failurePolicy: Ignore` that would be a way around every policy.
 */
function readBodiesOurselves(app: WebhookServer): void {
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
}

/** Every answer at the end of the process says that no further request should come this way. */
function closeConnectionsAtTheEnd(app: WebhookServer, { draining }: WebhookDeps, closeMs: number): void {
  const cutOff = prepareClosing(app.server, closeMs);
  let closing = false;
  app.addHook('preClose', (done) => {
    closing = true;
    cutOff();
    done();
  });
  app.addHook('onSend', async (_request, reply) => {
    if (closing || draining()) void reply.header('connection', 'close');
  });
}

/** For answers that do not wait for the whole request, as to a body over the limit. After all hooks that close connections. */
function answerBeforeHangingUp(app: WebhookServer, lingerMs: number): void {
  app.addHook('onSend', async ({ raw }, reply, payload) => {
    const hangsUp = reply.getHeader('connection') === 'close' && !raw.complete;
    if (!hangsUp || typeof payload !== 'string') return payload;
    void reply.header('content-length', Buffer.byteLength(payload));
    return lingering(payload, raw, lingerMs);
  });
}

async function review(
  webhook: Webhook,
  request: Request<ReviewRoute>,
  reply: Reply,
  deps: WebhookDeps,
): Promise<Answer> {
  const started = performance.now();
  const { version, request: admission } = parseReview(request.body);
  const { entry } = request.params;
  const report = (outcome: Outcome) => {
    const seconds = (performance.now() - started) / 1_000;
    deps.metrics.admission({ webhook, operation: admission.operation, outcome }, seconds);
    return { ...describe(webhook, entry, admission), outcome, ms: round(seconds) };
  };
  try {
    const decision = await deps[webhook](entry, admission, answerSignal(request.query.timeout, reply));
    const answer = toAnswer(webhook, version, admission, decision); // before it is reported: this too can fail
    deps.log.info({ ...report(decision.kind), ...detailOf(decision) }, 'admission');
    return answer;
  } catch (err) {
    deps.log.error({ ...report('error'), err }, 'admission');
    // Which handler it was helps its user; why is for the log.
    return err instanceof HandlerFailure ? failure(500, err.message) : INTERNAL_ERROR;
  }
}

function toAnswer(
  webhook: Webhook,
  version: ReviewVersion,
  request: AdmissionRequest,
  decision: Decision,
): Answer {
  if (decision.kind === 'retry') return retry(decision.message, decision.afterSeconds);
  const toReview = webhook === 'mutate' ? toMutatingReview : toValidatingReview;
  return okay(toReview(version, request, decision));
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
      return { message: decision.message, ...(decision.cause === undefined ? {} : { err: decision.cause }) };
  }
}

const pathOf = (request: Request): string => request.url.split('?', 1)[0]?.slice(0, 200) ?? '';
const round = (seconds: number): number => Math.round(seconds * 1e6) / 1e3;

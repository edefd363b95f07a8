/** The HTTPS server that the API server talks to. */
import type { Server } from 'node:https';
import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyRequest,
  type RouteGenericInterface,
} from 'fastify';

import { isDeeperThan } from '../json/json-scan.ts';
import { parseJson } from '../json/json.ts';
import { InvalidReview } from '../admission/review/review.ts';
import { addAdmissionRoutes, type AdmissionDeps } from './admission-routes.ts';
import { failure, INTERNAL_ERROR, send, type Reply } from './answer.ts';
import type { ClientAuthenticator } from './listener/client-certificates.ts';
import { prepareClosing, drainAfter } from './listener/connection-close.ts';
import { limitConnections } from './listener/connection-limit.ts';
import { addConversionRoutes, type ConversionServing } from './conversion-routes.ts';
import type { Metrics } from './metrics/metrics.ts';
import { secureOptions, type ServingCertificate } from './listener/serving-certificate.ts';

export type WebhookServer = FastifyInstance<Server>;

export interface WebhookDeps extends AdmissionDeps {
  /** Whether no further request should come over a connection that is answered now. */
  readonly turnsAway: () => boolean;
  readonly conversion: ConversionServing;
  readonly metrics: Pick<Metrics, 'admission' | 'deferred' | 'rejectedRequest'> &
    Pick<Metrics, 'crowdedOut' | 'webhookConnections'>;
}

/** A review carries the object twice, as it was and as it will be; the API server takes writes of up to 3 MiB. */
const BODY_LIMIT_BYTES = 8 * 1024 * 1024;

/**
 * The API server takes objects of 10,000 levels (sigs.k8s.io/json) and wraps them in reviews. What is nested deeper comes from
 * somebody else, and JSON.parse would need a second for some megabytes of brackets.
 */
const DEEPEST = 10_100;

/** How many clients there may be, and how long they may take, in milliseconds. */
export interface WebhookLimits {
  /** Connections at a time. */
  readonly connections: number;
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
  connections: 1_500,
  handshakeMs: 10_000,
  // The API server keeps idle connections for 90 s and does not repeat a POST that meets a closing one: we close later. That
  // holds for those that it has never used too, which Node cannot tell from those whose first request is slow to come.
  requestMs: 120_000,
  idleMs: 120_000,
  lingerMs: 5_000,
  // The longest `timeoutSeconds` of a webhook is 30: after that no one waits for an answer.
  closeMs: 30_000,
};

/** A client that has vanished without a word is found out so long after its last one, in milliseconds. */
const KEEP_ALIVE_MS = 30_000;

/**
 * Wires the routes and listens to nothing: tests inject requests, `serve` calls `listen`.
 *
 * @param gate who may come in; undefined: whoever reaches the port.
 */
export function buildWebhookServer(
  certificate: ServingCertificate,
  deps: WebhookDeps,
  limits: WebhookLimits = WEBHOOK_LIMITS,
  gate?: ClientAuthenticator,
): WebhookServer {
  const app: WebhookServer = Fastify({
    logger: false,
    https: {
      ...secureOptions(certificate, gate?.trust().ca),
      // What comes of it is the gate's to judge: conversions may do without.
      ...(gate === undefined ? {} : { requestCert: true, rejectUnauthorized: false }),
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_MS,
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

  deps.metrics.webhookConnections(limitConnections(app.server, limits.connections, deps.metrics.crowdedOut));
  gate?.guard(app);
  readBodiesOurselves(app);
  const isLast = closeConnectionsAtTheEnd(app, deps, limits);
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

  addAdmissionRoutes(app, deps, BODY_LIMIT_BYTES, isLast);
  addConversionRoutes(app, deps.conversion, deps.tracing);
  return app;
}

/**
 * Fastify's own JSON parser refuses objects with a key `__proto__`, which is a legal key of a ConfigMap: under
 * `failurePolicy: Ignore` that would be a way around every policy.
 */
function readBodiesOurselves(app: WebhookServer): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer' }, (_request, body, done) => {
    const text = body.toString('utf8');
    try {
      if (isDeeperThan(DEEPEST, text)) throw new Error('it is nested more than 10,000 levels deep');
      done(null, parseJson(text, body));
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      done(new InvalidReview(`the body is not JSON: ${why}`));
    }
  });
}

/** Every answer at the end of the process says that no further request should come this way. @returns whether it has come */
function closeConnectionsAtTheEnd(
  app: WebhookServer,
  { turnsAway }: WebhookDeps,
  { closeMs, lingerMs }: WebhookLimits,
): () => boolean {
  const cutOff = prepareClosing(app.server, closeMs);
  let closing = false;
  const isLast = () => closing || turnsAway();
  app.addHook('preClose', (done) => {
    closing = true;
    cutOff();
    done();
  });
  app.addHook('onSend', ({ raw }, reply, payload, done) => {
    if (isLast()) void reply.header('connection', 'close');
    const hangsUp = !raw.complete && reply.getHeader('connection') === 'close';
    if (!hangsUp || typeof payload !== 'string') {
      done(null, payload);
      return;
    }
    // An answer that does not wait for the whole request, as to a body over the limit.
    void reply.header('content-length', Buffer.byteLength(payload));
    done(null, drainAfter(payload, raw, lingerMs));
  });
  return isLast;
}

const pathOf = (request: FastifyRequest<RouteGenericInterface, Server>): string =>
  request.url.split('?', 1)[0]?.slice(0, 200) ?? '';

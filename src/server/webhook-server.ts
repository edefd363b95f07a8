/** The HTTPS server for requests of the API server. */
import type { Server } from 'node:https';
import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyRequest,
  type RouteGenericInterface,
} from 'fastify';

import { isDeeperThan } from '../json/json-scan.ts';
import { parseJson } from '../json/json.ts';
import { InvalidReview } from '../admission/review/envelope.ts';
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
  /** Whether to close a connection after the response that is sent now. */
  readonly turnsAway: () => boolean;
  readonly conversion: ConversionServing;
  readonly metrics: Pick<Metrics, 'admission' | 'deferred' | 'rejectedRequest'> &
    Pick<Metrics, 'crowdedOut' | 'webhookConnections'>;
}

/** A review contains the old and the new object. The API server accepts writes of up to 3 MiB. */
const BODY_LIMIT_BYTES = 8 * 1024 * 1024;

/**
 * The API server accepts objects 10,000 levels deep (sigs.k8s.io/json) and wraps them in reviews. Deeper input comes
 * from other clients, and JSON.parse would need a second for a few megabytes of brackets.
 */
const DEEPEST = 10_100;

/** Limits on connections and on the time that clients take, in milliseconds. */
export interface WebhookLimits {
  /** Connections at a time. */
  readonly connections: number;
  /** For a handshake. */
  readonly handshakeMs: number;
  /** For the first request to start, and for each request to arrive completely. */
  readonly requestMs: number;
  /** Between two requests. */
  readonly idleMs: number;
  /** For the rest of a request that is already answered. */
  readonly lingerMs: number;
  /** For open requests when the server closes. */
  readonly closeMs: number;
}

export const WEBHOOK_LIMITS: WebhookLimits = {
  connections: 1_500,
  handshakeMs: 10_000,
  // The API server keeps idle connections for 90 s and does not repeat a POST that meets a closing one: close later
  // than that. The same applies to its unused connections, which Node cannot tell from connections with a slow first
  // request.
  requestMs: 120_000,
  idleMs: 120_000,
  lingerMs: 5_000,
  // The maximum `timeoutSeconds` of a webhook is 30: after that the API server no longer waits.
  closeMs: 30_000,
};

/** TCP keep-alive detects a vanished client this long after its last packet, in milliseconds. */
const KEEP_ALIVE_MS = 30_000;

/**
 * Registers the routes without listening: tests inject requests, `serve` calls `listen`.
 *
 * @param gate authenticates clients; undefined: accept every client
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
      // The gate checks the certificate: conversions may not need one.
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
    return503OnClosing: false, // answer requests that still arrive
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
 * Fastify's JSON parser rejects objects with the key `__proto__`, which is a valid key of a ConfigMap. Under
 * `failurePolicy: Ignore`, users could bypass every policy with it.
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

/**
 * During shutdown, closes each connection after its response. @returns whether a response sent now is the last of its
 * connection
 */
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
    // A response to an incomplete request, e.g. to a body over the limit.
    void reply.header('content-length', Buffer.byteLength(payload));
    done(null, drainAfter(payload, raw, lingerMs));
  });
  return isLast;
}

const pathOf = (request: FastifyRequest<RouteGenericInterface, Server>): string =>
  request.url.split('?', 1)[0]?.slice(0, 200) ?? '';

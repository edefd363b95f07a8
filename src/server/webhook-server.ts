/** The HTTPS server for requests of the API server. */
import { constants } from 'node:crypto';
import type { Server } from 'node:https';
import type { Socket } from 'node:net';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyRequest,
  type RouteGenericInterface,
} from 'fastify';

import { InvalidReview } from '../admission/review/envelope.ts';
import { withoutPathTokens } from '../json/error-message.ts';
import { MAX_REVIEW_BYTES } from '../admission/review/read-review.ts';
import { addAdmissionRoutes, type AdmissionRoutesOptions } from './admission-routes.ts';
import type { ReviewLog } from './admission-log.ts';
import { failure, INTERNAL_ERROR, send, type IsLast, type Reply } from './answer.ts';
import type { ClientAuthenticator } from './listener/client-certificates.ts';
import { drainAfter, limitAge, prepareClosing, limitConnections } from './listener/connections.ts';
import { addConversionRoutes, type ConversionRoutesOptions } from './conversion-routes.ts';
import type { Metrics } from './metrics/metrics.ts';
import { acceptBodies } from './limits/receive-body.ts';

export type WebhookServer = FastifyInstance<Server>;

export interface WebhookServerOptions extends AdmissionRoutesOptions, ConversionRoutesOptions {
  /** Whether to close a connection after the response that is sent now. */
  readonly isDraining: () => boolean;
  readonly log: ReviewLog;
  readonly metrics: Pick<
    Metrics,
    'admission' | 'deferred' | 'conversion' | 'rejectedRequest' | 'crowdedOut' | 'scrape'
  >;
  readonly limits?: WebhookLimits | undefined;
  /** Undefined: accept every client. */
  readonly clients?: ClientAuthenticator | undefined;
}

/** Limits on connections and on the time that clients take, in milliseconds. */
export const WEBHOOK_LIMITS = {
  /** Connections at a time. */
  connections: 1_500,
  handshakeMs: 10_000,
  /**
   * For the first request to start, and for each request to arrive completely. The API server keeps idle connections for
   * 90 s and does not repeat a POST that meets a closing one: close later than that. The same applies to its unused
   * connections, which Node cannot tell from connections with a slow first request.
   */
  requestMs: 120_000,
  /** Between two requests. */
  idleMs: 120_000,
  /** A connection ends with its first response after this time, or up to twice this time: new replicas get requests. */
  lifetimeMs: 300_000,
  /** For the rest of a request that is already answered. */
  lingerMs: 5_000,
  /** The API server writes a request at once. A slower client may hold the connection on purpose. */
  slowAfterMs: 5_000,
  /** For open requests when the server closes. The API server waits 30 s at most, the maximum of `timeoutSeconds`. */
  closeMs: 30_000,
};

export type WebhookLimits = typeof WEBHOOK_LIMITS;

/** TCP keep-alive detects a vanished client this long after its last packet, in milliseconds. */
const KEEP_ALIVE_MS = 30_000;

/** Registers the routes without listening: tests inject requests, `serve` calls `listen`. */
export function buildWebhookServer(
  certificate: ServingCertificate,
  options: WebhookServerOptions,
): WebhookServer {
  const { metrics, log, limits = WEBHOOK_LIMITS, clients } = options;
  const app: WebhookServer = Fastify({
    logger: false,
    https: {
      ...secureOptions(certificate, clients?.trust().ca),
      // `clients` checks the certificate: conversions may not need one.
      ...(clients === undefined ? {} : { requestCert: true, rejectUnauthorized: false }),
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_MS,
      handshakeTimeout: limits.handshakeMs,
      headersTimeout: limits.requestMs,
      connectionsCheckingInterval: Math.min(1_000, limits.requestMs),
    },
    keepAliveTimeout: limits.idleMs,
    requestTimeout: limits.requestMs,
    return503OnClosing: false, // answer requests that still arrive
    forceCloseConnections: 'idle',
  });

  const { connections, slowAfterMs } = limits;
  const { count, isIdle } = limitConnections(app.server, connections, slowAfterMs, metrics.crowdedOut);
  metrics.scrape({ connections: count });
  clients?.guard(app);
  app.removeAllContentTypeParsers();
  acceptBodies(app, MAX_REVIEW_BYTES);
  const isLast = closeConnections(app, options.isDraining, limits, isIdle);
  const reject = (reply: Reply, code: number, message: string) => {
    metrics.rejectedRequest(code);
    return send(reply, failure(code, message));
  };
  app.setNotFoundHandler((request, reply) =>
    reject(reply, 404, `there is no ${request.method} ${pathOf(request)} here`),
  );
  app.setErrorHandler((error: FastifyError, request, reply) => {
    const code = error instanceof InvalidReview ? 400 : (error.statusCode ?? 500);
    if (code < 500) return reject(reply, code, error.message);
    log.error({ err: error, path: pathOf(request) }, 'could not answer');
    return send(reply, INTERNAL_ERROR);
  });

  addAdmissionRoutes(app, options, isLast);
  addConversionRoutes(app, options);
  return app;
}

/** Closes connections after their response, when they are old, or while draining. @returns whether a response is the last one */
function closeConnections(
  app: WebhookServer,
  isDraining: () => boolean,
  { closeMs, lifetimeMs, lingerMs }: WebhookLimits,
  isIdle: (socket: Socket) => boolean,
): IsLast {
  const cutOff = prepareClosing(app.server, closeMs, isIdle);
  const isOld = limitAge(app.server, lifetimeMs);
  let closing = false;
  const isLast: IsLast = ({ socket }) => closing || isDraining() || isOld(socket);
  app.addHook('preClose', async () => {
    closing = true;
    await cutOff();
  });
  app.addHook('onSend', ({ raw }, reply, payload, done) => {
    if (isLast(raw)) void reply.header('connection', 'close');
    const closesEarly = !raw.complete && reply.getHeader('connection') === 'close';
    if (!closesEarly || typeof payload !== 'string') {
      done(null, payload);
      return;
    }
    // A response to an incomplete request, e.g. to a body with another content type.
    void reply.header('content-length', Buffer.byteLength(payload));
    done(null, drainAfter(payload, raw, lingerMs));
  });
  return isLast;
}

/** Without the token: the API server shows messages to users. */
const pathOf = (request: FastifyRequest<RouteGenericInterface, Server>): string =>
  withoutPathTokens(request.url.split('?', 1)[0]?.slice(0, 200) ?? '');

/** PEM: the leaf with its intermediates, and the private key. */
export interface ServingCertificate {
  readonly chain: string;
  readonly key: string;
}

/** From TLS 1.2, only suites with forward secrecy and authenticated encryption. All suites of TLS 1.3 have both. */
const CIPHERS = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE+AESGCM',
  'ECDHE+CHACHA20',
].join(':');

/**
 * No renegotiation: a client could make the server sign again and again. No session tickets: a resumed session does not
 * ask for the client certificate again, and the API server never resumes one.
 */
const NEVER = constants.SSL_OP_NO_RENEGOTIATION | constants.SSL_OP_NO_TICKET;

/**
 * The complete TLS options. A swap must repeat all of them: Node resets missing options to its defaults.
 *
 * @param clientCa PEM of the CAs of client certificates; undefined: the server requests no client certificate
 */
export function secureOptions({ chain, key }: ServingCertificate, clientCa?: string) {
  return {
    cert: chain,
    key,
    minVersion: 'TLSv1.2',
    ciphers: CIPHERS,
    secureOptions: NEVER,
    ...(clientCa === undefined ? {} : { ca: clientCa }),
  } as const satisfies SecureContextOptions;
}

/**
 * Presents `certificate` on new connections. Open connections keep theirs.
 * @throws if key and certificate do not match; the server keeps its current certificate
 */
export function swapCertificate(
  server: Pick<Server, 'setSecureContext'>,
  certificate: ServingCertificate,
  clientCa?: string,
): void {
  const options = secureOptions(certificate, clientCa);
  createSecureContext(options); // throws before the server changes
  server.setSecureContext(options);
}

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
  readonly isDraining: () => boolean;
  readonly log: ReviewLog;
  readonly metrics: Pick<
    Metrics,
    'admission' | 'deferred' | 'conversion' | 'rejectedRequest' | 'crowdedOut' | 'scrape'
  >;
  readonly limits?: WebhookLimits | undefined;
  readonly clients?: ClientAuthenticator | undefined;
}

/** Limits on connections and on the time that clients take, in milliseconds. */
export const WEBHOOK_LIMITS = {
  connections: 1_500,
  handshakeMs: 10_000,
  /** The API server keeps idle connections for 90 s and does not repeat a POST that meets a closing one: close later. */
  requestMs: 120_000,
  idleMs: 120_000,
  /** A connection ends with its first response after this time, or up to twice this time: new replicas get requests. */
  lifetimeMs: 300_000,
  lingerMs: 5_000,
  /** The API server writes a request immediately. A slower client may hold the connection deliberately. */
  slowAfterMs: 5_000,
  /** For open requests when the server closes. The API server waits 30 s at most, the maximum of `timeoutSeconds`. */
  closeMs: 30_000,
};

export type WebhookLimits = typeof WEBHOOK_LIMITS;

/** TCP keep-alive detects a vanished client this long after its last packet, in milliseconds. */
const KEEP_ALIVE_MS = 30_000;

export function buildWebhookServer(
  certificate: ServingCertificate,
  options: WebhookServerOptions,
): WebhookServer {
  const { metrics, log, limits = WEBHOOK_LIMITS, clients } = options;
  const app: WebhookServer = Fastify({
    logger: false,
    https: {
      ...secureOptions(certificate, clients?.trust().ca),
      // `clients` checks the certificate, which is optional for conversions.
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
    void reply.header('content-length', Buffer.byteLength(payload));
    done(null, drainAfter(payload, raw, lingerMs));
  });
  return isLast;
}

/** Without the token: the API server shows messages to users. */
const pathOf = (request: FastifyRequest<RouteGenericInterface, Server>): string =>
  withoutPathTokens(request.url.split('?', 1)[0]?.slice(0, 200) ?? '');

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

/** A client could make the server sign again and again; a resumed session does not ask for the client certificate again. */
const NEVER = constants.SSL_OP_NO_RENEGOTIATION | constants.SSL_OP_NO_TICKET;

/** A swap must repeat all of them: Node resets missing options. @param clientCa PEM; undefined: no client certificate */
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

/** Open connections keep theirs. @throws if key and certificate do not match; the server keeps its current certificate */
export function swapCertificate(
  server: Pick<Server, 'setSecureContext'>,
  certificate: ServingCertificate,
  clientCa?: string,
): void {
  const options = secureOptions(certificate, clientCa);
  createSecureContext(options); // throws before the server changes
  server.setSecureContext(options);
}

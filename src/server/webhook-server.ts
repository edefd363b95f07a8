import { constants } from 'node:crypto';
import type { IncomingMessage, Server as HttpServer, ServerResponse } from 'node:http';
import type { Server } from 'node:https';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyRequest,
  type RouteGenericInterface,
} from 'fastify';

import { InvalidReview } from '../admission/review/request.ts';
import { withoutPathTokens } from '../json/abort.ts';
import { MAX_REVIEW_BYTES } from '../admission/review/review.ts';
import { addAdmissionRoutes, type AdmissionRoutesOptions } from './admission-routes.ts';
import { failure, INTERNAL_ERROR, type IsLast, type Reply, type ReviewLog, send } from './answer.ts';
import type { ClientAuthenticator } from './listener/client-certificates.ts';
import { addConversionRoutes, type ConversionRoutesOptions } from './conversion-routes.ts';
import type { Metrics } from './metrics/metrics.ts';
import { acceptBodies } from './limits/load-shedding.ts';

export type WebhookServer = FastifyInstance<Server>;

export interface WebhookServerOptions extends AdmissionRoutesOptions, ConversionRoutesOptions {
  readonly isDraining: () => boolean;
  readonly log: ReviewLog;
  readonly metrics: Pick<
    Metrics,
    'admission' | 'deferred' | 'existingAllowed' | 'conversion' | 'rejectedRequest' | 'crowdedOut' | 'scrape'
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

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly began: number;
}

interface Connection {
  readonly key: string;
  readonly socket: Socket;
  readonly exchanges: Set<Exchange>;
  isProven: boolean;
  /** When its last exchange began or ended, as `performance.now()` returns it, in milliseconds. */
  since: number;
  bytesRead: number;
}

/**
 * Above `most` connections, closes the first of these: the oldest one without a successful response; one whose client is
 * slow with a request or a response for more than `slowAfterMs`; the one idle longest; the new one, as all others wait.
 * @returns functions that count the connections, and tell whether a TLS socket has begun no request, or is between two
 */
export function limitConnections(
  server: HttpServer | Server,
  most: number,
  slowAfterMs: number,
  crowdedOut: () => void,
): { readonly count: () => number; readonly isIdle: (socket: Socket) => boolean } {
  const all = new Map<string, Connection>();
  /** Keyed by the TLS socket: each request looks it up, and reading addresses is slow. */
  const known = new WeakMap<Socket, Connection>();
  const connectionOf = (socket: Socket): Connection | undefined => {
    const before = known.get(socket);
    if (before !== undefined) return before;
    const found = all.get(addressOf(socket) ?? '');
    if (found !== undefined) known.set(socket, found);
    return found;
  };

  server.on('connection', (socket: Socket) => {
    const key = addressOf(socket);
    if (key === undefined) {
      socket.destroy(); // the client has disconnected already
      return;
    }
    const connection = {
      key,
      socket,
      exchanges: new Set<Exchange>(),
      isProven: false,
      since: performance.now(),
      bytesRead: 0,
    };
    all.set(key, connection);
    socket.once('close', () => {
      // A new connection may use the same address and port by now.
      if (all.get(key) === connection) all.delete(key);
    });
    if (all.size <= most) return;
    crowdedOut();
    const left = leastUseful(connection, all.values(), slowAfterMs);
    // Its socket closes later: until then, it must neither count nor be chosen again.
    all.delete(left.key);
    left.socket.destroy();
  });

  // Every request runs this: all sorting is left to the moment when there are too many connections.
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const connection = connectionOf(request.socket);
    if (connection === undefined) return;
    const exchange: Exchange = { request, response, began: performance.now() };
    connection.exchanges.add(exchange);
    connection.since = exchange.began;
    response.on('close', () => {
      connection.exchanges.delete(exchange);
      connection.isProven = response.statusCode < 400;
      connection.since = performance.now();
      connection.bytesRead = request.socket.bytesRead;
    });
  });
  return {
    count: () => all.size,
    isIdle: (socket) => {
      const connection = known.get(socket);
      if (connection === undefined) return socket.bytesRead === 0;
      return connection.exchanges.size === 0 && connection.bytesRead === socket.bytesRead;
    },
  };
}

function leastUseful(newcomer: Connection, all: Iterable<Connection>, slowAfterMs: number): Connection {
  const began = performance.now() - slowAfterMs;
  const longest: Partial<Record<'unproven' | 'slow' | 'waiting', Connection>> = {};
  for (const connection of all) {
    const { exchanges, isProven, since } = connection;
    const isSlow = [...exchanges].every((exchange) => exchange.began < began && isClientTurn(exchange));
    if (connection === newcomer || !isSlow) continue;
    const group = exchanges.size > 0 ? 'slow' : isProven ? 'waiting' : 'unproven';
    if (since < (longest[group]?.since ?? Infinity)) longest[group] = connection;
  }
  return longest.unproven ?? longest.slow ?? longest.waiting ?? newcomer;
}

const isClientTurn = ({ request, response }: Exchange): boolean =>
  !request.complete || response.writableEnded;

const addressOf = ({ remoteAddress, remotePort }: Socket): string | undefined =>
  remoteAddress === undefined || remotePort === undefined ? undefined : `${remoteAddress}|${remotePort}`;

/** Several times the body limit: a client that exceeds the limit by mistake can finish sending. */
const LINGER_BYTES = 32 * 1024 * 1024;

/** Discards the rest of `request` before the connection closes: a reset could lose the response (RFC 9112, section 9.6). */
export function drainAfter(answer: string, request: IncomingMessage, lingerMs: number): Readable {
  return Readable.from(inStages(answer, request, lingerMs));
}

async function* inStages(answer: string, request: IncomingMessage, lingerMs: number): AsyncGenerator<string> {
  yield answer;
  const enough = new AbortController();
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > LINGER_BYTES) enough.abort();
  });
  const signal = AbortSignal.any([enough.signal, AbortSignal.timeout(lingerMs)]);
  // The request is complete, aborted or over a limit: close the connection now.
  await finished(request, { signal }).catch(() => undefined);
}

const STAGED_MS = 2_000;

/**
 * The returned function destroys idle connections just before the server closes, and all others after `graceMs`: Node counts
 * a connection without any request as busy. Destroying a connection loses requests that were not read, so each turn of the
 * event loop reads them and then closes one connection. After two seconds, it closes the rest: clients must not delay this.
 */
export function prepareClosing(
  server: Server,
  graceMs: number,
  isIdle: (socket: Socket) => boolean,
): () => Promise<void> {
  const open = new Set<Socket>();
  server.on('secureConnection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });

  return async () => {
    setTimeout(() => server.closeAllConnections(), graceMs).unref();
    await nextTurn(); // may end the present turn, which has read its sockets already
    const until = performance.now() + STAGED_MS;
    for (const socket of open) {
      if (!isIdle(socket)) continue;
      if (performance.now() < until) await nextTurn();
      if (isIdle(socket)) socket.destroy();
    }
  };
}

/**
 * The API server distributes connections, not requests: without a limit, new replicas would stay idle. The random limit
 * between one and two times `lifetimeMs` keeps connections that began together from ending together.
 * @returns whether the next response must end the connection: an idle one may be receiving a request
 */
export function limitAge(
  server: Server,
  lifetimeMs: number,
  random = Math.random,
  now = () => performance.now(),
): (socket: Socket) => boolean {
  const ends = new WeakMap<Socket, number>();
  server.on('secureConnection', (socket) => {
    ends.set(socket, now() + lifetimeMs * (1 + random()));
  });
  return (socket) => now() >= (ends.get(socket) ?? Infinity);
}
